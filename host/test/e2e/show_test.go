package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// show prints what a script does for a person. In tests it prints to nobody.
type show struct {
	out    io.Writer
	colour bool
	began  time.Time
	tail   int // bytes of a manager's log that a failure shows
	// stays keeps everything up after the script, until the interrupt.
	stays       bool
	interrupted <-chan struct{}
}

// TestShow gives the demonstration (make run): the script show on a control
// plane of its own, or on the cluster of $KUBECONFIG. Everything stays up until
// Ctrl-C, unless $ONCE is set.
func TestShow(t *testing.T) {
	if os.Getenv("SHOW") == "" {
		t.Skip("make run sets SHOW; without it TestScripts runs the script show")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	once := os.Getenv("ONCE")
	h := &harness{build: buildDir(t), namespace: metav1.NamespaceDefault, show: show{
		out: os.Stdout, colour: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "", began: time.Now(), tail: 6 << 10,
		stays: once == "" || once == "0", interrupted: ctx.Done(),
	}}
	dir := filepath.Join(h.build, "demo")
	if err := claim(t, dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), h.openCluster(t, dir)); err != nil {
		t.Fatal(err)
	}
	// A subtest, so that the control plane ends after the script.
	t.Run("script", func(t *testing.T) {
		params := h.params(filepath.Join(scripts, "show.txtar"))
		params.WorkdirRoot = dir
		testscript.Run(t, params)
	})
	if !t.Failed() {
		h.show.step("every step happened, everything is taken down")
	}
}

// claim keeps the directory of a demonstration that is up from a second one.
func claim(t *testing.T, dir string) error {
	t.Helper()
	if kubeconfig, err := filepath.Abs(os.Getenv("KUBECONFIG")); err == nil && strings.HasPrefix(kubeconfig, dir+string(filepath.Separator)) {
		return errors.New("KUBECONFIG is that of an earlier make run: unset KUBECONFIG")
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another make run is up: end it first (%w)", dir, err)
	}
	return nil
}

// openCluster starts a control plane, or takes that of $KUBECONFIG and a
// namespace of the show's own in it.
func (h *harness) openCluster(t *testing.T, dir string) (err error) {
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		h.show.step("starting etcd and kube-apiserver on loopback")
		h.cluster, err = devcluster.Start(devcluster.Options{AssetsDir: assetsDir(t), Dir: dir})
		if err == nil {
			t.Cleanup(func() { stopCluster(t, h.cluster) })
		}
	} else {
		h.show.step("using the cluster of " + kubeconfig)
		h.cluster, err = devcluster.Existing(kubeconfig, devcluster.Options{AssetsDir: assetsDir(t), Dir: dir})
		h.existing, h.namespace = true, "wasm-ccm-demo-"+rand.String(5)
	}
	if err != nil {
		return err
	}
	version, err := h.cluster.ServerVersion()
	if err == nil && h.existing {
		err = refuseForeignServices(t.Context(), h.cluster)
	}
	h.show.fact("kube-apiserver", version+" at "+h.cluster.Config().Host)
	return err
}

// refuseForeignServices keeps the show from taking over load balancers: the
// service controller cares for every Service that has no class.
func refuseForeignServices(ctx context.Context, cluster *devcluster.Cluster) error {
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil {
			return fmt.Errorf("the cluster has the Service %s/%s of type LoadBalancer without a loadBalancerClass, which the show's manager would take over: use a cluster without such Services, or none (unset KUBECONFIG)", s.Namespace, s.Name)
		}
	}
	return nil
}

// leave removes what the show made in an existing cluster, and nothing else. The
// Service goes while the manager lives, which takes its finalizer away.
func (h *harness) leave() error {
	kubectl := func(args ...string) error {
		args = append(args, "--kubeconfig="+h.cluster.Kubeconfig(), "--ignore-not-found", "--timeout=30s")
		if out, err := exec.Command(h.cluster.Kubectl(), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	mine := h.mine()
	return errors.Join(
		kubectl("delete", "service", "web", "--namespace="+h.namespace),
		kubectl("delete", "node", mine+"node-1", mine+"node-2", mine+"node-3"),
		kubectl("delete", "persistentvolume", mine+"data"),
		kubectl("delete", "namespace", h.namespace, "--wait=false"))
}

// mine begins the names of cluster-wide objects in an existing cluster.
func (h *harness) mine() string {
	if h.existing {
		return h.namespace + "-"
	}
	return ""
}

// controllers leaves those out that would delete an existing cluster's own
// Nodes, which the inventory does not have, or give them routes.
func (h *harness) controllers() string {
	if h.existing {
		return "*,-cloud-node-lifecycle-controller,-node-route-controller"
	}
	return "*"
}

// stepCommand announces what comes next:
//
//	step TEXT
func (h *harness) stepCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "step TEXT")
	h.show.step(args[0])
}

// factCommand prints what has just been seen to be so; without a text, the
// output of the command before:
//
//	fact SUBJECT [TEXT]
func (h *harness) factCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 1 || len(args) == 2), "fact SUBJECT [TEXT]")
	if len(args) == 1 {
		args = append(args, strings.TrimSpace(ts.ReadFile("stdout")))
	}
	h.show.fact(args[0], args[1])
}

// showCommand is waitfor, and prints the output of kubectl:
//
//	show SUBJECT REGEXP KUBECTL-ARG...
func (h *harness) showCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 3, "show SUBJECT REGEXP KUBECTL-ARG...")
	h.show.fact(args[0], h.waitForOutput(ts, patience, args[1], args[2:]))
}

// stay says how to explore the cluster and waits for the interrupt; in tests,
// and with $ONCE, it does nothing:
//
//	stay MANAGER
func (h *harness) stay(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "stay MANAGER")
	if !h.show.stays {
		return
	}
	m := h.manager(ts, args[0])
	h.show.step("it stays up until Ctrl-C; in another shell, try")
	fmt.Fprintf(h.show.out, `  export KUBECONFIG=%s
  alias kubectl='%s --namespace=%s'
  kubectl get nodes,svc,pv -L topology.kubernetes.io/zone
  kubectl create service loadbalancer another --tcp=80
  kubectl edit configmap inventory
  kubectl get events --field-selector involvedObject.name=%s
`, ts.Getenv("KUBECONFIG"), h.cluster.Kubectl(), h.namespace, configMap)
	flags := []string{"--manager-namespace=" + h.namespace}
	if !h.existing { // there, nothing is bound to a role for all namespaces
		found, err := h.viewer(ts).flags(context.Background(), m)
		ts.Check(err)
		flags = append(flags, found...)
	}
	fmt.Fprintf(h.show.out, `  ccmctl() { %s "$@" %s; }
  ccmctl status
  ccmctl why service another
  ccmctl rollout history static
`, filepath.Join(h.build, "ccmctl"), strings.Join(flags, " "))
	fmt.Fprintln(h.show.out, "  tail -f", m.logPath)
	select {
	case <-h.show.interrupted:
	case <-m.done:
		ts.Fatalf("the manager has ended:\n%s", m.tail(6<<10))
	}
}

func (s *show) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *show) step(text string) {
	fmt.Fprintf(s.out, "\n%s\n", s.paint("1", "==> "+text))
}

func (s *show) fact(subject, text string) {
	at := fmt.Sprintf("%6.1fs", time.Since(s.began).Seconds())
	fmt.Fprintf(s.out, "%s  %s %-22s %s\n", s.paint("2", at), s.paint("32", "ok"), subject, text)
}
