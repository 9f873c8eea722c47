package listing_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// These tests run upstream's own controllers over the whole chain: listing,
// brake, provider and async.Invoker, with a guest that counts its ops.

// guest is a cloud of servers; each op takes some time.
type guest struct {
	takes    func(op abi.Op) time.Duration
	listFail error

	mu      sync.Mutex
	servers map[string]*abi.Instance // by name
	order   []string
	ops     map[string]int
}

func newGuest(servers int) *guest {
	g := &guest{servers: map[string]*abi.Instance{}, ops: map[string]int{}, takes: func(abi.Op) time.Duration { return 20 * time.Millisecond }}
	for n := range servers {
		g.create(n)
	}
	return g
}

func (g *guest) create(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := fmt.Sprintf("n%03d", n)
	g.order = append(g.order, name)
	g.servers[name] = &abi.Instance{
		NodeName: name, State: abi.PowerState_POWER_STATE_ON,
		Metadata: &abi.InstanceMetadata{ProviderId: "fake://" + name, Zone: "z1",
			Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: fmt.Sprintf("10.0.%d.%d", n/200, n%200+1)}}},
	}
}

func (g *guest) remove(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.servers, name)
}

func (*guest) Supports(abi.Op) bool { return true }
func (*guest) ProviderName() string { return "fake" }
func (*guest) HasClusterID() bool   { return true }

func (g *guest) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return g.serve(ctx, "", op, req, resp)
}

func (g *guest) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return g.serve(ctx, "fresh ", op, req, resp)
}

func (g *guest) serve(ctx context.Context, prefix string, op abi.Op, req, resp abi.Message) error {
	select {
	case <-time.After(g.takes(op)):
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ops[prefix+op.String()]++
	if list, ok := req.(*abi.ListInstancesRequest); ok {
		return g.list(list, resp.(*abi.ListInstancesResponse))
	}
	s := g.servers[req.(*abi.InstanceRequest).Node.Name]
	switch r := resp.(type) {
	case *abi.InstanceExistsResponse:
		r.Existence = abi.Existence_EXISTENCE_EXISTS
		if s == nil {
			r.Existence = abi.Existence_EXISTENCE_DOES_NOT_EXIST
		}
	case *abi.InstanceShutdownResponse:
		r.State = s.State
	case *abi.InstanceMetadataResponse:
		if s == nil {
			return &abi.Error{Code: abi.CodeInstanceNotFound}
		}
		r.Metadata = s.Metadata
	}
	return nil
}

func (g *guest) list(req *abi.ListInstancesRequest, resp *abi.ListInstancesResponse) error {
	if g.listFail != nil {
		return g.listFail
	}
	start, _ := strconv.Atoi(req.PageToken)
	end := min(start+int(req.PageSize), len(g.order))
	for _, name := range g.order[start:end] {
		if s := g.servers[name]; s != nil {
			resp.Instances = append(resp.Instances, s)
		}
	}
	if end < len(g.order) {
		resp.NextPageToken = strconv.Itoa(end)
	}
	resp.Done = true
	return nil
}

// cluster is nodes, upstream's controllers for them, and a guest.
type cluster struct {
	*guest
	t   *testing.T
	api *fake.Clientset
	ctx context.Context
}

// run starts the controllers and calls test in simulated time. Nodes exist for
// all servers of the guest; they are initialised and Ready.
func run(t *testing.T, g *guest, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &cluster{guest: g, t: t, api: fake.NewClientset(), ctx: ctx}
		for _, name := range g.order {
			c.join(name, false)
		}
		factory := informers.NewSharedInformerFactory(c.api, 0)
		nodes := factory.Core().V1().Nodes()
		options := brake.Options{
			Limits:  brake.Limits{Percent: 10, Nodes: 3, Period: 30 * time.Minute, Settle: 40 * time.Second},
			Cluster: func() corelisters.NodeLister { return nodes.Lister() }, Clock: clock.RealClock{},
		}
		invoker := async.New(g, async.Options{})
		var lists *listing.Listing
		cloud := provider.New(invoker, provider.WithInstances(func(i provider.Instances) cloudprovider.InstancesV2 {
			lists = listing.New(i, listing.Options{})
			return brake.New(lists, options)
		}))
		nodeController, err := node.NewCloudNodeController(nodes, c.api, cloud, 5*time.Minute, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, c.api, cloud, 5*time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		metrics := controllersmetrics.NewControllerManagerMetrics("test")
		go nodeController.RunWithContext(ctx, metrics)
		go lifecycle.Run(ctx, metrics)
		time.Sleep(time.Minute)
		test(c)
		cancel()
		factory.Shutdown()
		lists.Close()
		if err := invoker.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// join adds the Node of a server.
func (c *cluster) join(name string, fresh bool) {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if fresh {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	} else {
		n.Spec.ProviderID = "fake://" + name
	}
	if _, err := c.api.CoreV1().Nodes().Create(c.ctx, n, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) notReady(name string) {
	c.t.Helper()
	n, err := c.api.CoreV1().Nodes().Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if _, err := c.api.CoreV1().Nodes().UpdateStatus(c.ctx, n, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// nodes returns all Nodes, by name.
func (c *cluster) nodes() map[string]corev1.Node {
	c.t.Helper()
	list, err := c.api.CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]corev1.Node{}
	for _, n := range list.Items {
		all[n.Name] = n
	}
	return all
}

// refreshed counts the Nodes that have an address from the cloud.
func (c *cluster) refreshed() (count int) {
	for _, n := range c.nodes() {
		if len(n.Status.Addresses) > 0 {
			count++
		}
	}
	return count
}

// spent fails the test unless the guest ran these ops since the last time.
func (c *cluster) spent(what string, want map[string]int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if fmt.Sprint(c.ops) != fmt.Sprint(want) {
		c.t.Errorf("%s: ops %v, want %v", what, c.ops, want)
	}
	clear(c.ops)
}

func TestUpstreamsControllers(t *testing.T) {
	run(t, newGuest(200), func(c *cluster) {
		if n := c.refreshed(); n != 200 {
			t.Errorf("%d Nodes have addresses", n)
		}
		c.spent("the first refresh", map[string]int{"list_instances": 2})
		time.Sleep(5 * time.Minute)
		c.spent("another refresh", map[string]int{"list_instances": 2})

		c.create(200)
		c.join("n200", true)
		time.Sleep(time.Minute)
		added := c.nodes()["n200"]
		if added.Spec.ProviderID != "fake://n200" || len(added.Spec.Taints) != 0 || len(added.Status.Addresses) == 0 {
			t.Errorf("the new Node is %+v", added)
		}
		c.spent("one node added", map[string]int{"instance_metadata": 1})

		c.remove("n007")
		c.notReady("n007")
		time.Sleep(time.Minute) // the brake waits first
		if all := c.nodes(); len(all) != 200 || all["n007"].Name != "" {
			t.Errorf("%d Nodes are left", len(all))
		}
		if gone, fresh := c.ops["instance_exists"], c.ops["fresh instance_exists"]; gone == 0 || fresh != 2 || gone > 4 || len(c.ops) != 2 { // one of them about a Node that is there
			t.Errorf("one node gone: ops %v", c.ops)
		}
	})
}

func TestUpstreamsControllersAndAnOutageOfNodes(t *testing.T) {
	run(t, newGuest(200), func(c *cluster) {
		c.spent("the first refresh", map[string]int{"list_instances": 2})
		for n := range 100 { // a rack is off the network; one of its machines is gone, one is off
			c.notReady(fmt.Sprintf("n%03d", n))
		}
		c.remove("n050")
		c.mu.Lock()
		c.servers["n051"].State = abi.PowerState_POWER_STATE_SHUTDOWN
		c.mu.Unlock()
		time.Sleep(time.Minute)
		all := c.nodes()
		if len(all) != 199 || all["n050"].Name != "" {
			t.Errorf("%d Nodes are left", len(all))
		}
		if taints := all["n051"].Spec.Taints; len(taints) != 1 || taints[0].Key != cloudproviderapi.TaintNodeShutdown {
			t.Errorf("taints of the machine that is off: %v", taints)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		// 12 rounds of 100 nodes would be 2,400 questions.
		if lists, direct := c.ops["list_instances"], c.ops["instance_exists"]+c.ops["instance_shutdown"]; lists > 8 || direct > 40 {
			t.Errorf("ops in a minute: %v", c.ops)
		}
	})
}

func TestUpstreamsControllersWithoutAListing(t *testing.T) {
	broken := newGuest(200)
	broken.listFail = errors.New("trap")
	run(t, broken, func(c *cluster) {
		if n := c.refreshed(); n != 200 {
			t.Errorf("%d Nodes have addresses", n)
		}
		c.spent("a refresh while lists trap", map[string]int{"list_instances": 1, "instance_metadata": 200})
	})
}

func TestUpstreamsControllersWithAListingThatHangs(t *testing.T) {
	slow := newGuest(200)
	slow.takes = func(op abi.Op) time.Duration {
		if op == abi.OpListInstances {
			return time.Hour
		}
		return 20 * time.Millisecond
	}
	run(t, slow, func(c *cluster) {
		c.create(200)
		c.join("n200", true)
		time.Sleep(time.Second)
		if n := c.nodes()["n200"]; len(n.Spec.Taints) != 0 {
			t.Error("a new Node waits for the listing that hangs")
		}
		time.Sleep(5 * time.Minute)
		if n := c.refreshed(); n != 201 {
			t.Errorf("%d Nodes have addresses", n)
		}
	})
}

// Pages that need longer than a worker waits come in the background.
func TestUpstreamsControllersWithASlowListing(t *testing.T) {
	slow := newGuest(200)
	slow.takes = func(op abi.Op) time.Duration {
		if op == abi.OpListInstances {
			return 15 * time.Second
		}
		return 20 * time.Millisecond
	}
	run(t, slow, func(c *cluster) {
		if n := c.refreshed(); n != 0 {
			t.Errorf("%d Nodes have addresses after the first refresh", n)
		}
		time.Sleep(5 * time.Minute)
		if n := c.refreshed(); n != 200 {
			t.Errorf("%d Nodes have addresses after the second", n)
		}
		c.spent("two refreshes", map[string]int{"list_instances": 4})
	})
}
