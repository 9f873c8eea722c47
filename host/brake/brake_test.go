package brake

import (
	"context"
	"errors"
	"fmt"
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
)

type fakeInstances struct {
	cloudprovider.InstancesV2
	exists, fresh func(node string) (bool, error)
}

func (f *fakeInstances) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return f.exists(node.Name)
}
func (f *fakeInstances) InstanceExistsFresh(_ context.Context, node *corev1.Node) (bool, error) {
	return f.fresh(node.Name)
}

func always(exists bool, err error) func(string) (bool, error) {
	return func(string) (bool, error) { return exists, err }
}

type observed struct {
	refused, contradicted int
	switched              []bool
}

func (o *observed) Refused(*corev1.Node, Status) { o.refused++ }
func (o *observed) Contradicted(*corev1.Node)    { o.contradicted++ }
func (o *observed) Engaged(s Status)             { o.switched = append(o.switched, s.Engaged) }

// cluster is a brake before a cluster whose nodes are asked about as the
// lifecycle controller does, and deleted when it would.
type cluster struct {
	*Brake
	*observed
	t         *testing.T
	instances *fakeInstances
	clock     *testclock.FakeClock
	nodes     cache.Indexer
	deleted   int
	lastErr   error
}

func newCluster(t *testing.T, size int, change func(*Options)) *cluster {
	t.Helper()
	c := &cluster{
		t: t, observed: &observed{}, clock: testclock.NewFakeClock(time.Now()),
		instances: &fakeInstances{exists: always(false, nil), fresh: always(false, nil)},
		nodes:     cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	for n := range size {
		c.put(n, corev1.ConditionUnknown)
	}
	options := DefaultOptions()
	options.Settle = 0
	options.Clock, options.Observer = c.clock, c.observed
	options.Cluster = func() corelisters.NodeLister { return corelisters.NewNodeLister(c.nodes) }
	if change != nil {
		change(&options)
	}
	c.Brake = New(c.instances, options)
	return c
}

func (c *cluster) put(n int, ready corev1.ConditionStatus) {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", n), UID: types.UID(fmt.Sprint("uid-", n))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	if err := c.nodes.Update(node); err != nil {
		c.t.Fatal(err)
	}
}

// round asks about every node that is not Ready once.
func (c *cluster) round() {
	c.t.Helper()
	for _, key := range slices.Sorted(slices.Values(c.nodes.ListKeys())) {
		item, _, _ := c.nodes.GetByKey(key)
		node := item.(*corev1.Node)
		if node.Status.Conditions[0].Status == corev1.ConditionTrue {
			continue
		}
		exists, err := c.InstanceExists(c.t.Context(), node)
		if err != nil {
			c.lastErr = err
		}
		if exists || err != nil {
			continue
		}
		if err := c.nodes.Delete(node); err != nil {
			c.t.Fatal(err)
		}
		c.deleted++
	}
}

// rounds lets the time pass with a round every five seconds, or every minute
// when it is long.
func (c *cluster) rounds(d time.Duration) {
	step := 5 * time.Second
	if d >= time.Hour {
		step = time.Minute
	}
	for range int(d / step) {
		c.round()
		c.clock.Step(step)
	}
}

func TestWhatPasses(t *testing.T) {
	broken := errors.New("trap")
	for name, test := range map[string]struct {
		first, second func(string) (bool, error)
		exists, fails bool
	}{
		"there":                {always(true, nil), always(false, nil), true, false},
		"no answer":            {always(false, broken), always(false, nil), false, true},
		"gone, twice":          {always(false, nil), always(false, nil), false, false},
		"gone, then there":     {always(false, nil), always(true, nil), false, true},
		"gone, then no answer": {always(false, nil), always(false, broken), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, nil)
			c.instances.exists, c.instances.fresh = test.first, test.second
			node := c.nodes.List()[0].(*corev1.Node)
			exists, err := c.InstanceExists(t.Context(), node)
			if exists != test.exists || (err != nil) != test.fails {
				t.Errorf("%v, %v", exists, err)
			}
		})
	}
}

func TestTheWholeClusterGone(t *testing.T) {
	c := newCluster(t, 200, nil)
	c.rounds(6 * time.Hour)
	if c.deleted != 20 {
		t.Errorf("%d nodes were deleted in six hours, want 20", c.deleted)
	}
	if len(c.switched) != 1 || !c.switched[0] {
		t.Errorf("engaged %v", c.switched)
	}
	if s := c.Status(); !s.Engaged || s.Gone != 180 || s.Allowed != 18 || s.Size != 180 {
		t.Errorf("status %+v", s)
	}
	for _, part := range []string{"deletion brake", "180 of 180", "at most 18", LiftedUntilAnnotation} {
		if !strings.Contains(c.lastErr.Error(), part) {
			t.Errorf("%q is not in %q", part, c.lastErr)
		}
	}
}

func TestASettlingManagerLetsNobodyGo(t *testing.T) {
	c := newCluster(t, 200, func(o *Options) { o.Settle = 30 * time.Second })
	c.round()
	if c.deleted != 0 || c.refused != 0 || !strings.Contains(c.lastErr.Error(), "just started") {
		t.Errorf("%d deleted, %d refused, %v", c.deleted, c.refused, c.lastErr)
	}
	c.rounds(time.Hour)
	if c.deleted != 0 || c.refused == 0 {
		t.Errorf("%d deleted, %d refused: all were known before the first could go", c.deleted, c.refused)
	}
	few := newCluster(t, 200, func(o *Options) { o.Settle = 30 * time.Second })
	few.instances.exists = func(node string) (bool, error) { return node > "n004", nil }
	few.rounds(time.Minute)
	if few.deleted != 5 {
		t.Errorf("%d of 5 missing nodes were deleted", few.deleted)
	}
}

func TestTheSecondQuestionSavesAll(t *testing.T) {
	c := newCluster(t, 200, nil)
	c.instances.fresh = always(true, nil)
	c.rounds(time.Hour)
	if c.deleted != 0 || c.contradicted == 0 || c.Status().Gone != 0 {
		t.Errorf("%d deleted, %d contradicted, status %+v", c.deleted, c.contradicted, c.Status())
	}
}

func TestShares(t *testing.T) {
	for _, test := range []struct{ size, percent, nodes, want int }{
		{1, 10, 3, 1}, {3, 10, 3, 3}, {10, 10, 3, 3}, {29, 10, 3, 3}, {40, 10, 3, 4}, {49, 10, 3, 4},
		{100, 0, 3, 3}, {100, 50, 0, 50}, {100, 100, 0, 100}, {100, 0, 0, 0},
	} {
		c := newCluster(t, test.size, func(o *Options) { o.Percent, o.Nodes = test.percent, test.nodes })
		c.rounds(time.Minute)
		if c.deleted != test.want {
			t.Errorf("%d of %d deleted with %d %% or %d, want %d", c.deleted, test.size, test.percent, test.nodes, test.want)
		}
	}
}

func TestTheShareFalls(t *testing.T) {
	t.Run("nodes are back in the cloud", func(t *testing.T) {
		c := newCluster(t, 200, nil)
		c.rounds(time.Minute)
		c.instances.exists = always(true, nil)
		c.rounds(time.Minute)
		checkReleased(t, c, 20)
	})
	t.Run("nodes are Ready again", func(t *testing.T) {
		c := newCluster(t, 200, nil)
		c.rounds(time.Minute)
		for n := 20; n < 200; n++ {
			c.put(n, corev1.ConditionTrue)
		}
		c.clock.Step(11 * time.Minute)
		c.put(199, corev1.ConditionUnknown) // one is really gone
		c.round()
		checkReleased(t, c, 21)
	})
	t.Run("an administrator deletes them", func(t *testing.T) {
		c := newCluster(t, 200, nil)
		c.rounds(time.Minute)
		for _, item := range c.nodes.List()[1:] {
			if err := c.nodes.Delete(item); err != nil {
				t.Fatal(err)
			}
		}
		c.clock.Step(11 * time.Minute)
		c.round()
		checkReleased(t, c, 21)
	})
	t.Run("the period passes", func(t *testing.T) {
		c := newCluster(t, 200, nil)
		c.instances.exists = func(node string) (bool, error) { return node >= "n025", nil }
		c.rounds(9 * time.Minute)
		if c.deleted != 20 {
			t.Errorf("%d deleted within the period", c.deleted)
		}
		c.rounds(2 * time.Minute)
		checkReleased(t, c, 25)
	})
}

func checkReleased(t *testing.T, c *cluster, deleted int) {
	t.Helper()
	if c.deleted != deleted {
		t.Errorf("%d deleted, want %d", c.deleted, deleted)
	}
	if len(c.switched) != 2 || !c.switched[0] || c.switched[1] || c.Status().Engaged {
		t.Errorf("engaged %v", c.switched)
	}
}

func TestAnAdministratorLiftsIt(t *testing.T) {
	asked := 0
	var until time.Time
	var fails error
	c := newCluster(t, 200, func(o *Options) {
		o.Lifted = func(context.Context) (time.Time, error) { asked++; return until, fails }
	})
	c.rounds(time.Minute)
	if c.deleted != 20 || asked > 7 {
		t.Errorf("%d deleted, asked %d times in a minute", c.deleted, asked)
	}
	until, fails = c.clock.Now().Add(time.Hour), errors.New("forbidden")
	c.rounds(time.Minute)
	if c.deleted != 20 {
		t.Error("an error lifted it")
	}
	if !strings.HasSuffix(c.lastErr.Error(), "could not be read: forbidden") {
		t.Errorf("the error is not in %q", c.lastErr)
	}
	fails, until = nil, c.clock.Now().Add(-time.Second)
	c.rounds(time.Minute)
	if c.deleted != 20 {
		t.Error("a time in the past lifted it")
	}
	until = c.clock.Now().Add(time.Hour)
	c.rounds(time.Minute)
	if c.deleted != 200 {
		t.Errorf("%d deleted after it was lifted", c.deleted)
	}
}

func TestNodesThatTheManagerDoesNotKnow(t *testing.T) {
	c := newCluster(t, 10, nil)
	stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n001", UID: "another"}}
	if exists, err := c.InstanceExists(t.Context(), stranger); exists || err == nil {
		t.Errorf("a later Node of the name: %v, %v", exists, err)
	}
	empty := newCluster(t, 0, nil) // the lister has not synced
	for n := range 10 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
		if exists, err := empty.InstanceExists(t.Context(), node); exists || err == nil {
			t.Errorf("not synced: %v, %v", exists, err)
		}
	}
}

func TestADeletionThatFailsStillCounts(t *testing.T) {
	c := newCluster(t, 40, nil)
	passed := map[string]bool{}
	for range 200 { // over half an hour; nothing is ever deleted
		for _, item := range c.nodes.List() {
			node := item.(*corev1.Node)
			if _, err := c.InstanceExists(t.Context(), node); err == nil {
				passed[node.Name] = true
			}
		}
		c.clock.Step(10 * time.Second)
	}
	if len(passed) != 4 {
		t.Errorf("%d nodes were let go, want 4", len(passed))
	}
}
