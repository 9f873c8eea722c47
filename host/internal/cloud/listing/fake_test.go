package listing

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// cloud is Instances whose instances are servers, and counts what it is asked.
type cloud struct {
	list    func(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error)
	canList func() bool

	mu      sync.Mutex
	servers []*abi.Instance
	pages   int
	direct  map[abi.Op]int
}

func newCloud(servers int) *cloud {
	c := &cloud{direct: map[abi.Op]int{}, canList: func() bool { return true }}
	for n := range servers {
		c.servers = append(c.servers, server(n))
	}
	c.list = c.page
	return c
}

func server(n int) *abi.Instance {
	return &abi.Instance{
		NodeName: fmt.Sprintf("n%03d", n), State: abi.PowerState_POWER_STATE_ON,
		Metadata: &abi.InstanceMetadata{
			ProviderId: fmt.Sprintf("fake://%d", n), Zone: "z1", AdditionalLabels: map[string]string{"rack": "a"},
			Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: fmt.Sprintf("10.0.%d.%d", n/200, n%200+1)}},
		},
	}
}

// node is that of the server; initialised.
func node(n int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", n), UID: "u"},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("fake://%d", n)},
	}
}

// newNode is node before it is initialised.
func newNode(n int) *corev1.Node {
	x := node(n)
	x.Spec.ProviderID = ""
	x.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return x
}

// page answers from the servers; the token is the place of the next.
func (c *cloud) page(_ context.Context, _ uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages++
	start, _ := strconv.Atoi(token)
	end := min(start+int(size), len(c.servers))
	page := &abi.ListInstancesResponse{Instances: c.servers[start:end], Done: true}
	if end < len(c.servers) {
		page.NextPageToken = strconv.Itoa(end)
	}
	return page, nil
}

func (c *cloud) CanList() bool { return c.canList() }

func (c *cloud) ListInstances(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
	return c.list(ctx, listing, token, size)
}

// ask counts a direct question and finds the server.
func (c *cloud) ask(op abi.Op, node *corev1.Node) *abi.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.direct[op]++
	for _, s := range c.servers {
		if s.Metadata != nil && s.Metadata.ProviderId == node.Spec.ProviderID || s.NodeName == node.Name && node.Spec.ProviderID == "" {
			return s
		}
	}
	return nil
}

func (c *cloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return c.ask(abi.OpInstanceExists, node) != nil, nil
}

func (c *cloud) InstanceExistsFresh(_ context.Context, node *corev1.Node) (bool, error) {
	return c.ask(abi.OpInstanceExists, node) != nil, nil
}

func (c *cloud) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	return c.ask(abi.OpInstanceShutdown, node).State == abi.PowerState_POWER_STATE_SHUTDOWN, nil
}

// InstanceMetadata says that it is the answer of a direct question.
func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if c.ask(abi.OpInstanceMetadata, node) == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{Region: "direct"}, nil
}

// remove takes servers away from the cloud.
func (c *cloud) remove(keep func(n int) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []*abi.Instance
	for n, s := range c.servers {
		if keep(n) {
			left = append(left, s)
		}
	}
	c.servers = left
}

// spent returns the pages and direct questions since it was called last.
func (c *cloud) spent() (pages, direct int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.direct {
		direct += n
	}
	pages, c.pages = c.pages, 0
	clear(c.direct)
	return pages, direct
}

// tally is what an observer heard.
type tally struct {
	listed, served, asked, putOff int
	failed                        []error
	delays                        []time.Duration
}

type observed struct {
	mu sync.Mutex
	tally
}

func (o *observed) note(f func(t *tally)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.tally)
}

func (o *observed) Listed(int, int, time.Duration) { o.note(func(t *tally) { t.listed++ }) }
func (o *observed) Served(abi.Op, time.Duration)   { o.note(func(t *tally) { t.served++ }) }
func (o *observed) Asked(abi.Op)                   { o.note(func(t *tally) { t.asked++ }) }
func (o *observed) PutOff()                        { o.note(func(t *tally) { t.putOff++ }) }
func (o *observed) Failed(err error, delay time.Duration) {
	o.note(func(t *tally) { t.failed, t.delays = append(t.failed, err), append(t.delays, delay) })
}

// world is a listing over a cloud.
type world struct {
	*Listing
	*cloud
	observer *observed
	t        *testing.T
}

// in runs a test with simulated time. A goroutine that is left fails it.
func in(t *testing.T, servers int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{cloud: newCloud(servers), observer: &observed{}, t: t}
		w.Listing = New(w.cloud, Options{Observer: w.observer})
		defer w.Close()
		test(w)
	})
}

// heard returns what the observer heard when all that can run has run.
func (w *world) heard() tally {
	synctest.Wait()
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	return w.observer.tally
}

// refresh asks for the metadata of initialised nodes, as upstream does, and
// returns how many of them got it.
func (w *world) refresh(nodes int) (got int) {
	w.t.Helper()
	for n := range nodes {
		if m, err := w.Listing.InstanceMetadata(w.t.Context(), node(n)); err == nil && m != nil {
			got++
		}
	}
	return got
}

// monitor asks what upstream asks about nodes that are not Ready, and returns
// how many exist and how many of them are shut down.
func (w *world) monitor(nodes int) (exist, down int) {
	w.t.Helper()
	for n := range nodes {
		exists, err := w.Listing.InstanceExists(w.t.Context(), node(n))
		if err != nil || !exists {
			continue
		}
		exist++
		if shutdown, err := w.Listing.InstanceShutdown(w.t.Context(), node(n)); err == nil && shutdown {
			down++
		}
	}
	return exist, down
}

// cost fails the test unless that much was asked since the last time.
func (w *world) cost(what string, pages, direct int) {
	w.t.Helper()
	if p, d := w.spent(); p != pages || d != direct {
		w.t.Errorf("%s cost %d pages and %d direct questions, want %d and %d", what, p, d, pages, direct)
	}
}
