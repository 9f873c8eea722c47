package brake_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	testclock "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

type fakeInstances struct {
	cloudprovider.InstancesV2
	exists, fresh func(node string) (bool, error)
	shutdowns     int
}

func (f *fakeInstances) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return f.exists(node.Name)
}

func (f *fakeInstances) InstanceExistsFresh(_ context.Context, node *corev1.Node) (bool, error) {
	return f.fresh(node.Name)
}

func (f *fakeInstances) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	f.shutdowns++
	return false, errors.New("no such instance")
}

func (f *fakeInstances) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return nil, nil
}

// observed writes down what an Observer is told.
type observed struct {
	told    []string
	message string // of the last Hold
	status  brake.Status
	// read is what people were told last of each Node; busy: nobody can be told.
	read   map[string]brake.Hold
	busy   bool
	events int
}

func (o *observed) Held(node *corev1.Node, hold brake.Hold) {
	o.told = append(o.told, node.Name+" "+string(hold.Reason))
	o.message = hold.Message
}
func (o *observed) Explain(node *corev1.Node, hold brake.Hold) bool {
	if !o.busy {
		o.read[node.Name] = hold
		o.events++
	}
	return !o.busy
}
func (o *observed) LetGo(*corev1.Node) {}
func (o *observed) Contradicted(n *corev1.Node, by string) {
	o.told = append(o.told, n.Name+" contradicted by "+by)
}
func (o *observed) Engaged(s brake.Status) {
	o.told = append(o.told, fmt.Sprint("engaged ", s.Engaged))
}
func (o *observed) Failed(what string, err error) {
	o.told = append(o.told, fmt.Sprint(what, " failed ", err != nil))
}
func (o *observed) Seen(s brake.Status) { o.status = s }
func (o *observed) count(what string) (n int) {
	for _, line := range o.told {
		if strings.HasSuffix(line, what) {
			n++
		}
	}
	return n
}

// cluster is a brake before a cluster whose nodes are asked about as the
// lifecycle controller does, and deleted when it would.
type cluster struct {
	*brake.Brake
	*observed
	t         *testing.T
	options   brake.Options
	instances *fakeInstances
	ledger    record
	clock     *testclock.FakeClock
	nodes     cache.Indexer
	beats     map[string]time.Time
	beatsErr  error
	deleted   []string
}

// newCluster has nodes n000 and so on. The machines of the first are gone, and
// their kubelets silent.
func newCluster(t *testing.T, size, gone int, change ...func(*brake.Options)) *cluster {
	t.Helper()
	exists := func(node string) (bool, error) { return node >= fmt.Sprintf("n%03d", gone), nil }
	c := &cluster{
		t: t, observed: &observed{read: map[string]brake.Hold{}}, clock: testclock.NewFakeClock(time.Now()),
		instances: &fakeInstances{exists: exists, fresh: exists}, beats: map[string]time.Time{},
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	for n := range size {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", n), UID: types.UID(fmt.Sprint("uid-", n))}}
		node.Spec.ProviderID = "fake://" + node.Name
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.clock.Now())}}
		if n < gone {
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		c.put(node)
	}
	c.options = brake.Options{Limits: shipped()}
	c.options.Clock, c.options.Observer, c.options.Ledger = c.clock, c.observed, &c.ledger
	c.options.Cluster = func() corelisters.NodeLister { return corelisters.NewNodeLister(c.nodes) }
	c.options.Heartbeats = func(context.Context) (map[string]time.Time, error) { return c.renewals(), c.beatsErr }
	for _, f := range change {
		f(&c.options)
	}
	c.restart()
	return c
}

// renewals are beats, and those of the Nodes that are Ready.
func (c *cluster) renewals() map[string]time.Time {
	all := maps.Clone(c.beats)
	for _, item := range c.nodes.List() {
		if node := item.(*corev1.Node); all[node.Name].IsZero() && node.Status.Conditions[0].Status == corev1.ConditionTrue {
			all[node.Name] = c.clock.Now().Truncate(10 * time.Second)
		}
	}
	return all
}

func (c *cluster) restart() { c.Brake = brake.New(c.instances, c.options) }

func (c *cluster) put(node *corev1.Node) {
	if err := c.nodes.Update(node); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) node(name string) *corev1.Node {
	item, ok, _ := c.nodes.GetByKey(name)
	if !ok {
		c.t.Fatalf("no node %s", name)
	}
	return item.(*corev1.Node).DeepCopy()
}

// change changes the nodes from and up to two numbers.
func (c *cluster) change(from, to int, change func(*corev1.Node)) {
	for n := from; n < to; n++ {
		node := c.node(fmt.Sprintf("n%03d", n))
		change(node)
		c.put(node)
	}
}

// round asks about every node that is not Ready once, in the reverse order of
// their names.
func (c *cluster) round() {
	c.t.Helper()
	for _, key := range slices.Backward(slices.Sorted(slices.Values(c.nodes.ListKeys()))) {
		node := c.node(key)
		if node.Status.Conditions[0].Status == corev1.ConditionTrue {
			continue
		}
		exists, err := c.InstanceExists(c.t.Context(), node)
		if err != nil {
			c.t.Fatal(err)
		}
		if exists {
			continue
		}
		if err := c.nodes.Delete(node); err != nil {
			c.t.Fatal(err)
		}
		c.deleted = append(c.deleted, key)
	}
}

// rounds lets the time pass with a round every five seconds.
func (c *cluster) rounds(d time.Duration) {
	c.t.Helper()
	for range int(d / (5 * time.Second)) {
		c.round()
		c.clock.Step(5 * time.Second)
	}
	c.round()
}

func (c *cluster) wantDeleted(n int) {
	c.t.Helper()
	if len(c.deleted) != n {
		c.t.Errorf("%d nodes are deleted, want %d; told %q", len(c.deleted), n, c.told)
	}
}
