package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// bundleFlags are the flags of bundle.
type bundleFlags struct {
	managerFlags
	output  string
	lines   int64
	timeout time.Duration
}

// Bounds of --log-lines.
const (
	usualLines = 2000
	mostLines  = 20_000
)

func newBundle() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive for those who are to help: states, calls, Events and logs, without secrets",
		Long: "Write a tar.gz with the configuration, the status, why objects are stuck, the\n" +
			"latest calls to the cloud, Events, metrics and logs of the manager. README.md in it\n" +
			"says what is in it, and what could not be read. No Secret is in it, no\n" +
			"configuration of a module and no annotation. The Secrets that the configuration\n" +
			"names are read, if you may, only to remove their values from everything else.\n" +
			"Look through the archive before you give it to somebody.",
		Example: "  ccmctl bundle\n" +
			"  ccmctl bundle -o /tmp/ccm.tar.gz --log-lines 500\n" +
			"  ccmctl bundle -o -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the file to write, which must not exist yet; - is stdout (default ccm-bundle-TIME.tar.gz)")
	cmd.Flags().Int64Var(&f.lines, "log-lines", usualLines, "how many of the last lines of each log")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long everything may take; what is missing then is left out")
	return cmd
}

func (f *bundleFlags) run(cmd *cobra.Command) error {
	if f.lines < 1 || f.lines > mostLines {
		return fmt.Errorf("--log-lines %d: must be from 1 to %d", f.lines, mostLines)
	}
	begun := time.Now().UTC().Truncate(time.Second)
	directory := "ccm-bundle-" + begun.Format("20060102T150405Z")
	if f.output == "" {
		f.output = directory + ".tar.gz"
	}
	if _, err := os.Lstat(f.output); err == nil {
		return fmt.Errorf("%s exists: remove it, or choose another name", f.output)
	}
	progress := newProgress(cmd.ErrOrStderr())
	b := &bundle{archive: archive{begun: begun}, redactor: &redactor{}, say: func(string) {}}
	if progress.terminal {
		b.say = func(what string) { progress.say("reading " + what) }
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	f.collect(ctx, b)
	progress.end()
	if len(b.files) == 0 {
		return fmt.Errorf("nothing could be read: %w", errors.Join(b.errors()...))
	}
	var data bytes.Buffer
	if err := b.finish(&data, directory); err != nil {
		return err
	}
	if f.output == "-" {
		_, err := cmd.OutOrStdout().Write(data.Bytes())
		return err
	}
	if err := createFile(f.output, data.Bytes(), 0o600); err != nil {
		return err
	}
	b.summary(cmd.ErrOrStderr(), f.output, data.Len())
	return nil
}

// collect reads everything. The cluster comes first: it names the Secrets that are
// removed from the rest.
func (f *bundleFlags) collect(ctx context.Context, b *bundle) {
	c := &bundleCluster{bundle: b, namespace: f.managers, lines: f.lines}
	config, client, err := f.client()
	if err == nil {
		c.config, c.client = config, client
		c.collect(ctx)
	} else {
		b.miss("everything of the API server", err)
	}
	b.say("the manager")
	manager, err := f.connect(ctx, true)
	if err != nil {
		b.miss("everything of the manager's API: status.json, why.txt, calls.json, reachability.json, metrics.txt", err)
		return
	}
	defer manager.close()
	b.manager(ctx, manager)
}

// manager reads what the manager says of itself.
func (b *bundle) manager(ctx context.Context, client *managerClient) {
	status, err := client.status(ctx)
	if err != nil {
		b.miss("status.json, why.txt", err)
	} else {
		b.object("status.json", "what the manager says of itself and its providers (ccmctl status -o json)", status)
		b.text("why.txt", "why each stuck object is stuck, with the op that was asked last (ccmctl why)", b.why(ctx, client, status))
	}
	var calls v1alpha1.Calls
	if err := client.get(ctx, v1alpha1.CallsPath, nil, &calls); err != nil {
		b.miss("calls.json", err)
	} else {
		b.object("calls.json", "the latest calls to the cloud (ccmctl calls -o json)", &calls)
	}
	if reachability, err := client.reachability(ctx); err != nil {
		b.miss("reachability.json", err)
	} else {
		b.object("reachability.json", "which granted hosts the manager can connect to (ccmctl check)", reachability)
	}
	const maxMetrics = 8 << 20
	metrics, err := client.fetch(ctx, "/metrics", "", maxMetrics)
	if err == nil && metrics.code != http.StatusOK {
		err = refusal(metrics.code, metrics.body)
	}
	if err != nil {
		b.miss("metrics.txt", err)
		return
	}
	if metrics.cut {
		b.miss("metrics.txt", fmt.Errorf("what follows its first %d bytes", maxMetrics))
	}
	b.text("metrics.txt", "the metrics of the manager", metrics.body)
}

// why explains each provider, and each object that the status says is stuck.
func (b *bundle) why(ctx context.Context, client *managerClient, status *v1alpha1.Status) []byte {
	var out bytes.Buffer
	print := func(e *v1alpha1.Explanation) { _ = printExplanation(&out, outputs[0], e); fmt.Fprintln(&out) } // a Buffer has no errors
	for i := range status.Nobodys {
		print(&status.Nobodys[i])
	}
	for i := range status.Providers {
		p := &status.Providers[i]
		e, err := client.why(ctx, v1alpha1.Object{Kind: v1alpha1.KindProvider, Name: p.Name})
		if err != nil {
			b.miss("why of provider "+p.Name, err)
		} else {
			print(e)
		}
		for n := range p.Stuck {
			print(&p.Stuck[n])
		}
		if o, named := p.Nodes, len(p.Stuck); o != nil && p.Services != nil && o.Stuck+p.Services.Stuck > named {
			b.miss("why.txt", fmt.Errorf("of %d stuck objects of provider %s the manager names %d", o.Stuck+p.Services.Stuck, text.Name(p.Name), named))
		}
	}
	return out.Bytes()
}
