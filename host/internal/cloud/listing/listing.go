// Package listing answers upstream's questions about single nodes from pages of
// instances (list_instances), if the provider has them. A refresh of N nodes then
// costs a few pages and not N questions, each of which costs some calls of the
// cloud's API.
//
// A listing only says which instances exist. The provider is asked directly about
// a node that is missing from the listing, is in it twice, or is unusable; and
// about all nodes when there is no listing. So a listing can save questions, and
// never causes the deletion of a Node.
package listing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// Instances is what a Listing wraps; provider.Instances is one.
type Instances interface {
	cloudprovider.InstancesV2
	// InstanceExistsFresh is never answered from a listing.
	InstanceExistsFresh(ctx context.Context, node *corev1.Node) (bool, error)
	// CanList reports whether the serving guest can list. It may change from
	// call to call and must not block.
	CanList() bool
	// ListInstances returns a page of the listing with that number; the first
	// page has the token "". A page that needs more time is an
	// api.RetryError, and is asked for again, with the same arguments, after
	// its delay.
	ListInstances(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error)
}

// Observer hears what a Listing does. Its methods must be safe for concurrent
// use, must not block and must not call the Listing.
type Observer interface {
	// Listed is told of a listing that is complete, and how long it took.
	Listed(instances, pages int, took time.Duration)
	// Failed is told, once for each, of a listing that failed. No other is
	// begun before the delay has passed; until one succeeds all is asked
	// directly.
	Failed(err error, delay time.Duration)
	// Served is told of an answer that came from a listing of that age.
	Served(op abi.Op, age time.Duration)
	// Asked is told of a direct question about one node.
	Asked(op abi.Op)
	// PutOff is told of metadata that there is none of yet, since the listing
	// takes long.
	PutOff()
}

// DefaultPageSize is how many instances are asked for at once.
const DefaultPageSize = 100

// How old a listing may be, counted from its beginning, to answer.
const (
	// recent is for existence, power state, and nodes that are new: what is
	// gone or came up is seen that much later.
	recent = 15 * time.Second
	// fresh is for metadata of initialised nodes, which upstream refreshes
	// every five minutes.
	fresh = time.Minute
	// stale is for the same while a listing takes longer than its callers wait.
	stale = 10 * time.Minute
)

// putOffDelay is in the error of metadata that is put off. Upstream only logs
// it and comes back with its next refresh.
const putOffDelay = 5 * time.Second

// Options of a Listing.
type Options struct {
	// PageSize in instances; 0 is DefaultPageSize. A page may have more or less.
	PageSize uint32
	// Observer may be nil.
	Observer Observer
	// Addresses decides which addresses of instances are used, once for each
	// listing. Reset drops the decisions. nil is addresses.Default.
	Addresses func() *addresses.Policy
}

// Listing is Instances. It is safe for concurrent use.
type Listing struct {
	Instances
	options Options
	// flights are the goroutines that fetch; none is added once closed is set.
	flights sync.WaitGroup

	mu     sync.Mutex
	closed bool
	number uint64 // of the last flight
	flight *flight
	last   *snapshot // the last complete listing
	demand demand
	// failures in a row; no flight begins before until.
	failures int
	until    time.Time
}

// New returns a listing over the instances. It starts nothing: pages are
// fetched when nodes are asked for.
func New(instances Instances, options Options) *Listing {
	if options.PageSize == 0 {
		options.PageSize = DefaultPageSize
	}
	if options.Observer == nil {
		options.Observer = nobody{}
	}
	if options.Addresses == nil {
		options.Addresses = addresses.Default
	}
	return &Listing{Instances: instances, options: options, demand: demand{}}
}

type nobody struct{}

func (nobody) Listed(int, int, time.Duration) {}
func (nobody) Failed(error, time.Duration)    {}
func (nobody) Served(abi.Op, time.Duration)   {}
func (nobody) Asked(abi.Op)                   {}
func (nobody) PutOff()                        {}

// InstanceExists returns true for an instance that is listed. Only a direct
// question says that one does not exist.
func (l *Listing) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	s := l.recent(ctx, node)
	if s.find(node) != nil {
		l.served(abi.OpInstanceExists, s)
		return true, nil
	}
	l.options.Observer.Asked(abi.OpInstanceExists)
	return l.Instances.InstanceExists(ctx, node)
}

// InstanceShutdown returns whether the instance is shut down, as a listing
// knows it or else a direct question.
func (l *Listing) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	s := l.recent(ctx, node)
	if i := s.find(node); i != nil && (i.state == abi.PowerState_POWER_STATE_ON || i.state == abi.PowerState_POWER_STATE_SHUTDOWN) {
		l.served(abi.OpInstanceShutdown, s)
		return i.state == abi.PowerState_POWER_STATE_SHUTDOWN, nil
	}
	l.options.Observer.Asked(abi.OpInstanceShutdown)
	return l.Instances.InstanceShutdown(ctx, node)
}

// InstanceMetadata returns metadata that the caller may change. For an
// initialised node the error is an api.RetryError while a listing takes long
// and there is none before it that may serve.
func (l *Listing) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	s, err := l.forMetadata(ctx, node)
	if err != nil {
		l.options.Observer.PutOff()
		return nil, err
	}
	if i := s.find(node); i != nil && i.metadata != nil {
		l.served(abi.OpInstanceMetadata, s)
		return clone(i.metadata), nil
	}
	l.options.Observer.Asked(abi.OpInstanceMetadata)
	return l.Instances.InstanceMetadata(ctx, node)
}

func (l *Listing) forMetadata(ctx context.Context, node *corev1.Node) (*snapshot, error) {
	if !initialised(node) {
		// A single new node is asked directly even when there is a listing: it
		// is seldom, and the instance may have changed since.
		if !l.many(node) {
			return nil, nil
		}
		return l.fetched(ctx, recent), nil
	}
	s, slow := l.newest(ctx, fresh)
	if !slow {
		return s, nil
	}
	if s = l.known(stale); s == nil {
		text := fmt.Sprintf("%s %s: the provider's list of instances is not complete yet (retry after %v)", abi.OpInstanceMetadata, node.Name, putOffDelay)
		return nil, cloudproviderapi.NewRetryError(text, putOffDelay)
	}
	return s, nil
}

// recent returns a recent listing: the one that is there, or a new one if many
// nodes are asked for. It may be nil.
func (l *Listing) recent(ctx context.Context, node *corev1.Node) *snapshot {
	many := l.many(node)
	if s := l.known(recent); s != nil || !many {
		return s
	}
	return l.fetched(ctx, recent)
}

// fetched is newest, unless a listing takes so long that it is old when it is
// complete.
func (l *Listing) fetched(ctx context.Context, age time.Duration) *snapshot {
	if l.took() > age/2 {
		return nil
	}
	s, _ := l.newest(ctx, age)
	return s
}

// Reset forgets the listing and discards one that is under way: another
// generation of the guest may know other instances.
func (l *Listing) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

func (l *Listing) reset() {
	if l.flight != nil {
		l.flight.cancel()
	}
	l.flight, l.last = nil, nil
	l.failures, l.until = 0, time.Time{}
	clear(l.demand)
}

// Close ends the listing that is under way and returns when nothing of it
// runs any more. After that all is asked directly.
func (l *Listing) Close() {
	l.mu.Lock()
	l.closed = true
	l.reset()
	l.mu.Unlock()
	l.flights.Wait()
}

func (l *Listing) served(op abi.Op, s *snapshot) { l.options.Observer.Served(op, time.Since(s.at)) }

// known returns the last listing if it is not older than age and the guest
// that serves can still list; else nil.
func (l *Listing) known(age time.Duration) *snapshot {
	if !l.CanList() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.within(age)
}

// took is how long the last listing took; 0 when there is none.
func (l *Listing) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return 0
	}
	return l.last.took
}

// many notes that a node is asked for and reports whether so many are that a
// listing is cheaper.
func (l *Listing) many(node *corev1.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := few
	if l.last != nil {
		limit = max(few, l.last.pages)
	}
	return l.demand.add(node.Name, limit, time.Now())
}

// initialised reports whether upstream only refreshes the node.
func initialised(node *corev1.Node) bool {
	return node.Spec.ProviderID != "" && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == cloudproviderapi.TaintExternalCloudProvider
	})
}

// clone copies what upstream appends to and writes into.
func clone(m *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
	c := *m
	c.NodeAddresses = slices.Clone(m.NodeAddresses)
	c.AdditionalLabels = maps.Clone(m.AdditionalLabels)
	return &c
}
