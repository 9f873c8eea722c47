package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/guests/build"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// devFlags are the flags of dev.
type devFlags struct {
	managerFlags
	build     build.Options
	configMap string
	service   string
	timeout   time.Duration
	once      bool
}

func newDev() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev PROVIDER DIRECTORY|MODULE.wasm",
		Short: "Build a guest and let it serve in a cluster, each time that a file is saved",
		Long: "Build the guest of a directory, put its module into the ConfigMap of a provider,\n" +
			"wait until it serves and its first op has ended, and begin again when a file below\n" +
			"the directory is saved. Of MODULE.wasm it is the file itself that is put, so that\n" +
			"any compiler can write it. For clusters of your own: the module is not signed,\n" +
			"and the rollout's own checks are all that stands before it.",
		Example: "  ccmctl dev mycloud .\n" +
			"  ccmctl dev mycloud . --configmap kube-system/mycloud --service default/web\n" +
			"  ccmctl dev mycloud target/wasm32-wasip1/release/mycloud.wasm",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], filepath.Clean(args[1])) },
	}
	f.add(cmd)
	addBuildFlags(cmd, &f.build)
	cmd.Flags().StringVar(&f.configMap, "configmap", "", "NAMESPACE/NAME of the ConfigMap with the module (default cloud-provider-PROVIDER in the manager's namespace)")
	cmd.Flags().StringVar(&f.service, "service", "", "NAMESPACE/NAME of a Service to which dev writes an annotation, so that each module is asked about it at once")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long a module may take to serve")
	cmd.Flags().BoolVar(&f.once, "once", false, "end when the module serves and its first op has ended, or when it does not")
	return cmd
}

func (f *devFlags) run(cmd *cobra.Command, provider, from string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := f.dev(cmd, provider, from)
	if err != nil {
		return err
	}
	if d.build.Out == "" {
		dir, err := os.MkdirTemp("", "ccmctl-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.build.Out = filepath.Join(dir, "provider.wasm")
	}
	saved, err := watchTree(ctx, from)
	if err != nil {
		return err
	}
	d.manager = &connection{connect: func() (*managerClient, error) { return f.connect(ctx, false) }}
	defer d.manager.drop()
	if f.once {
		return d.round(ctx)
	}
	d.rounds(ctx, saved)
	return nil
}

// errSaved ends a round.
var errSaved = errors.New("a file was saved")

// rounds runs rounds until ctx ends.
func (d *dev) rounds(ctx context.Context, saved <-chan struct{}) {
	for ctx.Err() == nil {
		err := d.roundUntil(ctx, saved)
		if errors.Is(err, errSaved) {
			d.say("saved again: this round is given up")
			continue
		}
		if err != nil && ctx.Err() == nil {
			d.say("error: %s", text.Line(err.Error(), 8<<10))
		}
		select {
		case <-ctx.Done():
		case <-saved:
		}
	}
}

// roundUntil is a round that a save ends: its outcome is then outdated.
func (d *dev) roundUntil(ctx context.Context, saved <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.round(ctx) }()
	select {
	case err := <-done:
		return err
	case <-saved:
		cancel()
		<-done //nolint:errcheck // abandoned
		return errSaved
	}
}

// dev is one provider under development.
type dev struct {
	*devFlags
	provider, from string
	log            io.Writer // of compilers
	client         kubernetes.Interface
	target         moduleConfigMap
	manager        *connection
	say            func(format string, args ...any)
	before         []byte // the module of the last round
}

func (f *devFlags) dev(cmd *cobra.Command, provider, from string) (*dev, error) {
	where := cmpOr(f.configMap, f.managers+"/cloud-provider-"+provider)
	namespace, name, ok := strings.Cut(where, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("--configmap %s: must be NAMESPACE/NAME", text.Quote(where))
	}
	config, client, err := f.client()
	if err != nil {
		return nil, err
	}
	if namespace, name, ok := strings.Cut(f.service, "/"); f.service != "" && (!ok || namespace == "" || name == "") {
		return nil, fmt.Errorf("--service %s: must be NAMESPACE/NAME", text.Quote(f.service))
	}
	out := cmd.OutOrStdout()
	d := &dev{devFlags: f, provider: provider, from: from, log: cmd.ErrOrStderr(), client: client, target: moduleConfigMap{client.CoreV1().ConfigMaps(namespace), namespace, name}}
	d.say = func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	d.say("modules go into ConfigMap %s of %s", d.target, config.Host)
	return d, nil
}

// round builds and puts the module, and waits for it.
func (d *dev) round(ctx context.Context) error {
	wasm, err := d.module(ctx)
	if err != nil {
		return err
	}
	if _, err := inspect(wasm); err != nil {
		return err
	}
	differences(d.say, d.before, wasm)
	d.before = wasm
	before, err := d.reach(ctx)
	if err != nil {
		return err
	}
	digest := strings.TrimPrefix(provenance.Digest(wasm), "sha256:")
	if isModule(before.Serving, digest) && (before.Offered == nil || isModule(before.Offered, digest)) {
		d.say("it serves already: %s", text.Digest(digest))
		return nil
	}
	began := time.Now()
	if err := d.target.put(ctx, wasm); err != nil {
		return err
	}
	return (&devWait{dev: d, began: began, generation: before.Generation, digest: digest}).await(ctx)
}

// module builds the guest, or reads another compiler's file.
func (d *dev) module(ctx context.Context) ([]byte, error) {
	if info, err := os.Stat(d.from); err != nil || !info.IsDir() {
		return readModule(d.from)
	}
	o := d.build
	o.Dir, o.Log = d.from, d.log
	result, err := buildGuest(ctx, o)
	if err != nil {
		return nil, err
	}
	d.say("%s", result)
	return readModule(result.Out)
}

// touch makes the service loop call the provider for a Service: it does when an
// annotation changes.
func (d *dev) touch(ctx context.Context, digest string) error {
	if d.service == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(d.service, "/")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"wasm-ccm.dev/dev":%q}}}`, text.Digest(digest)+" "+time.Now().UTC().Format(time.RFC3339Nano))
	_, err := d.client.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("--service %s: %w", text.Quote(d.service), err)
	}
	return nil
}

// reach returns the provider's status as soon as a manager answers: it may
// still be starting.
func (d *dev) reach(ctx context.Context) (*v1alpha1.Provider, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	said := ""
	for {
		p, err := d.status(ctx)
		if err == nil {
			return p, nil
		}
		if now := err.Error(); now != said && ctx.Err() == nil {
			said = now
			d.say("waiting: %s", text.Line(now, v1alpha1.MaxText))
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

func isModule(m *v1alpha1.Module, digest string) bool { return m != nil && m.Digest == digest }

// status of the provider, from the leading manager.
func (d *dev) status(ctx context.Context) (*v1alpha1.Provider, error) {
	var s v1alpha1.Status
	if err := d.manager.get(ctx, v1alpha1.StatusPath, &s); err != nil {
		return nil, err
	}
	// On the host network a connection to a former Pod reaches its successor.
	if !s.Manager.Leads && d.server == "" {
		d.manager.drop()
		return nil, fmt.Errorf("the manager %s does not lead any more", s.Manager.Host)
	}
	var names []string
	for i := range s.Providers {
		if s.Providers[i].Name == d.provider {
			return &s.Providers[i], nil
		}
		names = append(names, s.Providers[i].Name)
	}
	return nil, fmt.Errorf("the manager has no provider %s; it has %s", text.Quote(d.provider), strings.Join(names, ", "))
}
