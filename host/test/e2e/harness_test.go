package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// How long a command waits for what it expects, and how often it looks.
const interval = 100 * time.Millisecond

var patience = slowly(45 * time.Second)

// slow says that each op of the guests takes three seconds (make test-slow).
var slow = os.Getenv("CCM_SLOW") != ""

// slowly is how long a wait may be that is d where ops take no time.
func slowly(d time.Duration) time.Duration {
	if slow {
		return 8 * d
	}
	return d
}

// harness is what the commands of one script share. A script runs in one
// goroutine, so it needs no lock.
type harness struct {
	cluster   *devcluster.Cluster
	build     string
	namespace string
	client    kubernetes.Interface
	managers  map[string]*manager
	cloud     *cloud // of the script, once it is started
	show      show
	// registries of the script, and proxies before them, by their names.
	registries map[string]*devregistry.Registry
	proxies    map[string]*registryProxy
	prometheus *prometheus // of the script, once it is started
	// existing says that the cluster has objects of others: only what is named
	// after the namespace may be removed.
	existing bool
}

// params runs one script.
func (h *harness) params(file string) testscript.Params {
	return testscript.Params{
		Files:               []string{file},
		Setup:               h.setup,
		Cmds:                h.commands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(condition string) (bool, error) {
			switch condition {
			case "existing":
				return h.existing, nil
			case "alerts": // make test-alerts
				return os.Getenv("CCM_ALERTS") != "", nil
			case "panels": // make test-dashboard
				return os.Getenv("CCM_PANELS") != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", condition)
		},
	}
}

func (h *harness) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"account":     h.accountCommand,
		"alert":       h.alert,
		"api":         h.api,
		"ccm":         h.ccm,
		"ccmctl":      h.ccmctl,
		"certificate": h.certificate,
		"cloud":       h.cloudCommand,
		"configmap":   h.configmap,
		"expand":      h.expand,
		"fleet":       h.fleet,
		"prometheus":  h.prometheusCommand,
		"registry":    h.registryCommand,
		"secret":      h.secret,
		"event":       h.event,
		"fact":        h.factCommand,
		"kubectl":     h.kubectl,
		"log":         h.log,
		"metric":      h.metric,
		"module":      h.module,
		"mutate":      h.mutate,
		"node":        h.node,
		"nodelogs":    h.nodeLogs,
		"objects":     h.objects,
		"show":        h.showCommand,
		"stay":        h.stay,
		"step":        h.stepCommand,
		"waitfor":     h.waitfor,
		"warnings":    h.warnings,
		"why":         h.why,
		"writes":      h.writes,
	}
}

// queries are kubectl's output expressions that scripts use often, as
// environment. They need more quotes than a script can bear.
func queries() map[string]string {
	const zone, region = `(index .metadata.labels "topology.kubernetes.io/zone")`, `(index .metadata.labels "topology.kubernetes.io/region")`
	return map[string]string{
		// The phase of the rollout of a provider, of its status ConfigMap.
		"PHASE": `{.metadata.labels.wasm-ccm\.dev/phase}`,
		// The zone of a Node.
		"ZONE": `{.metadata.labels.topology\.kubernetes\.io/zone}`,
		// Reason, count and message of each Event.
		"EVENTS": `{range .items[*]}{.reason}:{.count}:{.message}{"\n"}{end}`,
		// The load balancer's addresses of a Service.
		"INGRESS": `{.status.loadBalancer.ingress[*].ip}`,
		// The provider that has the load balancer of a Service.
		"OWNER": `{.metadata.labels.wasm-ccm\.dev/load-balancer-provider}`,
		// Name and address of each Service of type LoadBalancer and no class.
		"BALANCED": `{{range .items}}{{if and (eq .spec.type "LoadBalancer") (not .spec.loadBalancerClass)}}{{.metadata.name}} {{range .status.loadBalancer.ingress}}{{.ip}}{{end}}{{"\n"}}{{end}}{{end}}`,
		// Zone, region and type of a Node, zone and region of a volume.
		"PLACE":           `{{` + zone + `}} {{` + region + `}} {{index .metadata.labels "node.kubernetes.io/instance-type"}}`,
		"PLACE_OF_VOLUME": `{{` + zone + `}} {{` + region + `}}`,
		// TYPE=ADDRESS of a Node, a space behind each.
		"ADDRESSES": `{range .status.addresses[*]}{.type}={.address} {"."}{end}`,
		// Status, reason and message of the condition of a Service.
		"PROGRAMMED": `{range .status.conditions[?(@.type=="wasm-ccm.dev/LoadBalancerProgrammed")]}{.status} {.reason} {.message}{end}`,
		// TYPE=STATUS of each condition, a space behind it.
		"CONDITIONS": `{range .status.conditions[*]}{.type}={.status} {end}`,
		// The taints of one or of several Nodes.
		"UNINITIALIZED": `{..taints[?(@.key=="node.cloudprovider.kubernetes.io/uninitialized")].key}`,
		"SHUTDOWN":      `{..taints[?(@.key=="node.cloudprovider.kubernetes.io/shutdown")].key}`,
		// What the provider onlooker has seen of the cluster.
		"SEEN": `{.items[?(@.reason=="Seen")].message}`,
		// What the route controller says of a Node.
		"NETWORK": `{range .status.conditions[?(@.type=="NetworkUnavailable")]}{.status} {.reason}{end}`,
		// A patch that changes the port of a Service.
		"PORTS": `{"spec":{"ports":[{"name":"80","port":8080,"protocol":"TCP","targetPort":80}]}}`,
	}
}

// setup gives the script a namespace of its own, the shared inventory.yaml and,
// as environment, NS, BUILD, DEPLOY, KUBECONFIG and the queries. When the script ends, its managers are killed and its
// cluster-wide objects removed.
func (h *harness) setup(env *testscript.Env) error {
	var err error
	if h.client, err = kubernetes.NewForConfig(h.cluster.Config()); err != nil {
		return err
	}
	h.managers, h.registries, h.proxies = map[string]*manager{}, map[string]*devregistry.Registry{}, map[string]*registryProxy{}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	if _, err := h.client.CoreV1().Namespaces().Create(context.Background(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", h.namespace, err)
	}
	inventory, err := os.ReadFile(filepath.Join(scripts, "inventory.yaml"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "inventory.yaml"), inventory, 0o600); err != nil {
		return err
	}
	env.Setenv("NS", h.namespace)
	env.Setenv("BUILD", h.build)
	deploy, err := filepath.Abs("../../../deploy")
	if err != nil {
		return err
	}
	env.Setenv("DEPLOY", deploy)
	env.Setenv("KUBECONFIG", h.cluster.Kubeconfig())
	env.Setenv("MINE", h.mine())
	env.Setenv("CONTROLLERS", h.controllers())
	if h.existing {
		env.Setenv("HOME", os.Getenv("HOME")) // a kubeconfig may name a program that logs in
	}
	env.Values[interrupted{}] = h.show.interrupted
	for name, query := range queries() {
		env.Setenv(name, query)
	}
	for name, value := range fleetSize() {
		env.Setenv(name, value)
	}
	env.Defer(func() { h.cleanUp(env) })
	return nil
}

func (h *harness) cleanUp(env *testscript.Env) {
	defer h.stopRegistries()
	var err error
	if h.existing {
		err = h.leave()
	}
	for _, m := range h.managers {
		m.kill()
		if env.T().(interface{ Failed() bool }).Failed() {
			env.T().Log(fmt.Sprintf("last lines of the log of %s:\n%s", m.name, m.tail(h.show.tail)))
		}
	}
	if !h.existing {
		err = h.removeObjects(context.Background())
	}
	if err != nil {
		env.T().Log("clean up:", err)
		env.T().FailNow()
	}
}

// removeObjects removes what other scripts would see. Finalizers go first:
// nobody is left to take them away.
func (h *harness) removeObjects(ctx context.Context) error {
	core := h.client.CoreV1()
	services, err := core.Services(h.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	unfinalize := []byte(`{"metadata":{"finalizers":null}}`)
	for i := range services.Items {
		name := services.Items[i].Name
		_, err := core.Services(h.namespace).Patch(ctx, name, types.MergePatchType, unfinalize, metav1.PatchOptions{})
		if err == nil {
			err = core.Services(h.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return errors.Join(
		core.Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		core.PersistentVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
}

// interrupted is the key of the value of a script that ends its waits.
type interrupted struct{}

// await calls look until it answers true or an error; what names the wait.
// With patience exceeded the script fails with what look said last.
func await(ts *testscript.TestScript, limit time.Duration, what string, look func() (done bool, seen string)) {
	deadline := time.Now().Add(limit)
	for {
		done, seen := look()
		if done {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: not within %s; last seen:\n%s", what, limit, seen)
		}
		select {
		case <-ts.Value(interrupted{}).(<-chan struct{}):
			ts.Fatalf("%s: interrupted", what)
		case <-time.After(interval):
		}
	}
}

func compile(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func readFile(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
