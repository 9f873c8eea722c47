package brake_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

// world is a cluster in simulated time: machines with kubelets, the Nodes that
// kube-controller-manager and kubelets write, a provider, and managers with
// upstream's lifecycle controller. What it is told happens in one goroutine;
// the managers see it through the lister and the provider.
type world struct {
	t      *testing.T
	start  time.Time
	period time.Duration // of the lifecycle controller
	lister corelisters.NodeLister
	nodes  cache.Indexer
	ledger record

	mu       sync.Mutex
	machines map[string]*machine
	says     says
	leases   error // of reading them
	deleted  []deletion
	// sizes is the most Nodes that there were.
	size   int
	denied []time.Time // contradictions
	lines  int         // of the log: what an Observer that logs would write
	events map[string]int
}

// machine is one of the cloud, with its kubelet.
type machine struct {
	name   string
	zone   string
	exists bool
	listed bool      // the cloud's inventory knows it
	silent time.Time // since when the kubelet is; zero: it is alive
	// back is when the kubelet came back last, before its last renewal then.
	back, before time.Time
	broken       bool // the kubelet lives and says that the Node is not ready
}

// deletion is one that the controller made.
type deletion struct {
	node    *corev1.Node
	after   time.Duration // the start
	exists  bool          // the machine does
	beat    time.Time     // the last one of the kubelet
	ready   int           // Nodes that are
	control [2]int        // of the control plane: Ready, and not
}

// simulate runs a world in a bubble until the script ends.
func simulate(t *testing.T, period time.Duration, script func(w *world)) *world {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	w := &world{period: period, nodes: nodes, lister: corelisters.NewNodeLister(nodes),
		machines: map[string]*machine{}, says: honest, events: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		w.t, w.start = t, time.Now()
		script(w)
	})
	return w
}

// manage runs one manager for a time, or until its end is called.
func (w *world) manage(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	cloud := &cloud{instances: newSubject(w)}
	c, err := nodelifecycle.NewCloudNodeLifecycleController(informer{lister: w.lister}, client{w: w}, cloud, w.period, 1)
	if err != nil {
		w.t.Error(err)
		return
	}
	c.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
}

// during runs managers, one after the other, for a time: each lives for life,
// and the next begins an overlap before its end. The script goes on meanwhile.
func (w *world) during(d, life, overlap time.Duration, script func()) {
	var group sync.WaitGroup
	for begin := time.Duration(0); begin < d; begin += life {
		group.Go(func() {
			time.Sleep(begin)
			w.manage(min(life+overlap, d-begin))
		})
	}
	script()
	group.Wait()
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// until sleeps until a time after the start.
func (w *world) until(d time.Duration) { time.Sleep(d - w.now()) }

// join adds a machine whose kubelet registers, and is initialised at once when
// the provider knows it.
func (w *world) join(name, zone string, listed bool, labels ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[name] = &machine{name: name, zone: zone, exists: true, listed: listed}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}},
	}
	for _, label := range labels {
		node.Labels[label] = ""
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse})
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	})
	if listed {
		initialise(node, zone)
	} else { // there is no network yet, too: the taint keeps it away
		node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		node.Status.Conditions[3].Status = corev1.ConditionFalse
		w.machines[name].broken = true
	}
	w.put(node)
}

func initialise(node *corev1.Node, zone string) {
	node.Spec.ProviderID, node.Spec.Taints = "fake://"+node.Name, nil
	node.Labels[corev1.LabelTopologyZone] = zone
}

// put is called with the lock.
func (w *world) put(node *corev1.Node) {
	if err := w.nodes.Update(node); err != nil {
		w.t.Error(err)
	}
	w.size = max(w.size, len(w.nodes.ListKeys()))
}

// change changes a Node, if it is there.
func (w *world) change(name string, change func(*corev1.Node)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if item, ok, _ := w.nodes.GetByKey(name); ok {
		node := item.(*corev1.Node).DeepCopy()
		change(node)
		w.put(node)
	}
}

// taint is done by an autoscaler.
func (w *world) taint(name, key string, effect corev1.TaintEffect) {
	w.change(name, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) })
}

func (w *world) annotate(name, key, value string) {
	w.change(name, func(n *corev1.Node) { n.Annotations = map[string]string{key: value} })
}

// silence takes kubelets off the network; kube-controller-manager notices
// after 50 seconds. The caller sleeps that long, as nothing else happens.
func (w *world) silence(names ...string) {
	w.mu.Lock()
	for _, name := range names {
		if m := w.machines[name]; m.silent.IsZero() {
			m.silent = time.Now()
		}
	}
	w.mu.Unlock()
	time.AfterFunc(50*time.Second, func() {
		for _, name := range names {
			w.mu.Lock()
			m := w.machines[name]
			gone := !m.silent.IsZero() && time.Since(m.silent) >= 50*time.Second
			w.mu.Unlock()
			if gone {
				w.ready(name, corev1.ConditionUnknown)
			}
		}
	})
}

// revive brings kubelets back.
func (w *world) revive(names ...string) {
	for _, name := range names {
		w.mu.Lock()
		m := w.machines[name]
		back := m.exists && !m.silent.IsZero()
		if back {
			m.back, m.before = time.Now(), m.renewal()
			m.silent = time.Time{}
		}
		w.mu.Unlock()
		if back {
			w.ready(name, corev1.ConditionTrue)
		}
	}
}

// cripple makes kubelets say that their Nodes are not ready.
func (w *world) cripple(names ...string) {
	for _, name := range names {
		w.ready(name, corev1.ConditionFalse)
	}
}

// remove deletes machines in the cloud, with their kubelets.
func (w *world) remove(names ...string) {
	w.silence(names...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.machines[name].exists = false
	}
}

func (w *world) ready(name string, status corev1.ConditionStatus) {
	w.change(name, func(n *corev1.Node) {
		c := &n.Status.Conditions[3]
		if c.Status != status {
			c.Status, c.LastTransitionTime = status, metav1.Now()
		}
		if status != corev1.ConditionUnknown {
			c.LastHeartbeatTime = metav1.Now()
		}
	})
}

func (w *world) say(s says) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.says = s
}

// left counts the Nodes whose machines are gone, and those whose are not.
func (w *world) left() (stale, alive int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.nodes.ListKeys() {
		if w.machines[name].exists {
			alive++
		} else {
			stale++
		}
	}
	return stale, alive
}

// renewal is when a kubelet renewed its Lease last.
func (m *machine) renewal() time.Time {
	last := time.Now()
	if !m.silent.IsZero() {
		last = m.silent
	}
	return last.Truncate(10 * time.Second)
}

func (w *world) heartbeats(context.Context) (map[string]time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leases != nil {
		return nil, w.leases
	}
	all := make(map[string]time.Time, len(w.machines))
	for name, m := range w.machines {
		all[name] = m.renewal()
	}
	return all, nil
}

// line counts what is told.
func (w *world) line(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines++
	w.events[what]++
}

// record is a ledger in memory, with the writes of two managers in turn.
type record struct {
	mu     sync.Mutex
	text   string
	writes int
	err    error
}

func (r *record) Change(_ context.Context, change func(string) (string, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	text, err := change(r.text)
	if text != r.text {
		r.text = text
		r.writes++
	}
	return err
}

func (r *record) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// names are those of so many machines.
func names(prefix string, from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprintf("%s%03d", prefix, n))
	}
	return all
}

// cluster joins three Nodes of the control plane and workers in three zones.
func (w *world) cluster(workers int) []string {
	for _, name := range names("cp", 0, 3) {
		w.join(name, "a", true, "node-role.kubernetes.io/control-plane")
	}
	all := names("w", 0, workers)
	for n, name := range all {
		w.join(name, string(rune('a'+n*3/max(1, workers))), true)
	}
	return all
}

// deletedBy counts the deletions until a time, and those of machines that exist.
func (w *world) deletedBy(d time.Duration) (all, wrong int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.deleted {
		if one.after <= d {
			all++
			if one.exists {
				wrong++
			}
		}
	}
	return all, wrong
}

func (w *world) deletions() []deletion {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.deleted)
}
