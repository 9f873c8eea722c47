// Package listing answers upstream's questions about single nodes from pages of instances
// (list_instances), if the provider has them. A refresh of N nodes then costs a few pages
// and not N questions, each of which costs some calls of the cloud's API.
//
// A listing only says which instances exist. The provider is asked directly about a node
// that is missing from the listing, is in it twice, or is unusable; and about all nodes when
// there is no listing. So a listing can save questions, and never causes the deletion of a
// Node.
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
	// CanList reports whether the serving guest can list. It may change from call to call and
	// must not block.
	CanList() bool
	// ListInstances returns a page of the listing with that number; the first page has the token
	// "". A page that needs more time is an api.RetryError, and is asked for again, with the
	// same arguments, after its delay.
	ListInstances(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error)
}

// Observer hears what a Listing does. Its methods must be safe for concurrent
// use, must not block and must not call the Listing.
type Observer interface {
	// Listed is told of a complete listing and its duration.
	Listed(instances, pages int, took time.Duration)
	// Failed is told once of each failed listing. The next one begins after the delay; until one
	// succeeds all questions are direct.
	Failed(err error, delay time.Duration)
	// Served is told of an answer from a listing of that age.
	Served(op abi.Op, age time.Duration)
	// Asked is told of a direct question about one node.
	Asked(op abi.Op)
	// PutOff is told of metadata that must wait for a slow listing.
	PutOff()
}

// DefaultPageSize is the default number of instances per page.
const DefaultPageSize = 100

// The greatest age of a listing, counted from its beginning, for an answer.
const (
	// recent is for existence, power state, and new nodes: changes are seen that much later.
	recent = 15 * time.Second
	// fresh is for metadata of initialised nodes, which upstream refreshes
	// every five minutes.
	fresh = time.Minute
	// stale is the same while a listing takes longer than its callers wait.
	stale = 10 * time.Minute
)

// putOffDelay is the delay in the error of metadata that is put off. Upstream only logs it,
// and returns at its next refresh.
const putOffDelay = 5 * time.Second

// Options of a Listing.
type Options struct {
	// PageSize in instances; 0 is DefaultPageSize. A page may have more or less.
	PageSize uint32
	// Observer may be nil.
	Observer Observer
	// Addresses is the policy for instances' addresses, applied once per listing. Reset drops
	// the decisions. nil is addresses.Default.
	Addresses func() *addresses.Policy
}

// Listing wraps Instances. It is safe for concurrent use.
type Listing struct {
	Instances
	options Options
	// flights counts the fetching goroutines; none starts once closed is set.
	flights sync.WaitGroup

	mu     sync.Mutex
	closed bool
	number uint64 // of the last flight
	flight *flight
	last   *snapshot // the last complete listing
	demand demand
	// failures counts those in a row; no flight begins before until.
	failures int
	until    time.Time
}

// New returns a listing over the instances. It starts nothing: pages are fetched on demand.
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

// InstanceExists returns true for a listed instance. Only a direct question can return
// false.
func (l *Listing) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	s := l.recent(ctx, node)
	if s.find(node) != nil {
		l.served(abi.OpInstanceExists, s)
		return true, nil
	}
	l.options.Observer.Asked(abi.OpInstanceExists)
	return l.Instances.InstanceExists(ctx, node)
}

// InstanceShutdown returns whether the instance is shut down, from a listing or else by a
// direct question.
func (l *Listing) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	s := l.recent(ctx, node)
	if i := s.find(node); i != nil && (i.state == abi.PowerState_POWER_STATE_ON || i.state == abi.PowerState_POWER_STATE_SHUTDOWN) {
		l.served(abi.OpInstanceShutdown, s)
		return i.state == abi.PowerState_POWER_STATE_SHUTDOWN, nil
	}
	l.options.Observer.Asked(abi.OpInstanceShutdown)
	return l.Instances.InstanceShutdown(ctx, node)
}

// InstanceMetadata returns metadata that the caller may change. For an initialised node the
// error is an api.RetryError while a slow listing is fetched and no older one may be used.
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
		// A single new node is asked for directly even with a listing: that is rare, and the
		// instance may have changed since.
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

// recent returns a recent listing: an existing one, or a new one if many nodes are asked
// for. It may be nil.
func (l *Listing) recent(ctx context.Context, node *corev1.Node) *snapshot {
	many := l.many(node)
	if s := l.known(recent); s != nil || !many {
		return s
	}
	return l.fetched(ctx, recent)
}

// fetched is newest, unless listings take so long that they are too old once complete.
func (l *Listing) fetched(ctx context.Context, age time.Duration) *snapshot {
	if l.took() > age/2 {
		return nil
	}
	s, _ := l.newest(ctx, age)
	return s
}

// Reset forgets the listing and discards one in flight: another generation of the guest may
// know other instances.
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

// Close ends the flight and returns when it has ended. After that all questions are direct.
func (l *Listing) Close() {
	l.mu.Lock()
	l.closed = true
	l.reset()
	l.mu.Unlock()
	l.flights.Wait()
}

func (l *Listing) served(op abi.Op, s *snapshot) { l.options.Observer.Served(op, time.Since(s.at)) }

// known returns the last listing if it is not older than age and the serving guest can still
// list; else nil.
func (l *Listing) known(age time.Duration) *snapshot {
	if !l.CanList() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.within(age)
}

// took is the duration of the last listing; 0 without one.
func (l *Listing) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return 0
	}
	return l.last.took
}

// many records a question about a node and reports whether a listing is cheaper by now.
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

// clone copies the parts that upstream appends to and writes into.
func clone(m *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
	c := *m
	c.NodeAddresses = slices.Clone(m.NodeAddresses)
	c.AdditionalLabels = maps.Clone(m.AdditionalLabels)
	return &c
}
