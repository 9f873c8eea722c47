package upstream

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"runtime"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// bridge makes host calls for the provider's goroutines. The guest has one
// thread, and a host call stops all goroutines: so the bridge waits until no
// runnable goroutine has another request, and sends all as one batch. Outside
// of ops that may use the network, requests wait for the next one.
type bridge struct {
	settings *Settings
	server   *proxy

	// host is held during a host call: its result is read in pieces, and
	// another goroutine may run in between.
	host sync.Mutex
	op   *sdk.Op // nil outside of ops that may use the network
	// opened is closed when op is set.
	opened chan struct{}
	seen   *witness // of the running op; may be nil
	// about is the object of the op, "KIND/NAMESPACE/NAME".
	about string
	// unanswered is why the op's latest request had no answer, if it had none:
	// many clients see only a closed connection.
	unanswered error
	// refused names the request of the latest batch that was answered 401, if
	// any, and why.
	refused string

	mu    sync.Mutex
	queue []*exchange
	wake  chan struct{}
	start sync.Once
}

// exchange is one request on its way.
type exchange struct {
	ctx     context.Context
	request *abi.HttpRequest
	result  sdk.HTTPResult
	done    chan struct{}
}

func newBridge() *bridge {
	b := &bridge{settings: &Settings{}, wake: make(chan struct{}, 1), opened: make(chan struct{})}
	b.server = newProxy(b)
	return b
}

// open lets requests pass, for an op about an object or none.
func (b *bridge) open(op *sdk.Op, about string) {
	b.start.Do(func() { go b.run() })
	b.host.Lock()
	if b.op == nil {
		close(b.opened)
	}
	b.op, b.seen, b.about, b.unanswered, b.refused = op, nil, about, nil, ""
	b.host.Unlock()
	b.rouse()
}

// close waits for the running host call. Unsent requests wait for the next op.
func (b *bridge) close() {
	b.yield()
	b.host.Lock()
	b.op, b.seen, b.opened = nil, nil, make(chan struct{})
	b.host.Unlock()
}

// witness records the cloud's answers from now on.
func (b *bridge) witness(w *witness) {
	b.host.Lock()
	b.seen = w
	b.host.Unlock()
}

// use makes a host call in the running op.
func (b *bridge) use(call func(*sdk.Op) error) error {
	b.host.Lock()
	defer b.host.Unlock()
	if b.op == nil {
		return sdk.Error(abi.CodeInternal, "upstream: a host call outside of an op")
	}
	return call(b.op)
}

// await makes a host call in the running op, or in the next one. about is the
// op's object.
func (b *bridge) await(ctx context.Context, call func(op *sdk.Op, about string) error) error {
	for {
		b.host.Lock()
		if b.op != nil {
			defer b.host.Unlock()
			return call(b.op, b.about)
		}
		opened := b.opened
		b.host.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send returns when the host has answered, or ctx is done.
func (b *bridge) send(ctx context.Context, request *abi.HttpRequest) (*abi.HttpResponse, error) {
	e := &exchange{ctx: ctx, request: request, done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, e)
	b.mu.Unlock()
	b.rouse()
	select {
	case <-e.done:
		return e.result.Response, e.result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *bridge) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bridge) run() {
	for range b.wake {
		for b.sendBatch() {
		}
	}
}

// yields is the number of times that all other goroutines may run before a
// batch leaves: a request passes several of them (a proxy, TLS).
const yields = 8

func (b *bridge) yield() {
	for range yields {
		runtime.Gosched()
	}
}

// sendBatch reports whether there was a request to send.
func (b *bridge) sendBatch() bool {
	b.yield()
	b.host.Lock()
	defer b.host.Unlock()
	if b.op == nil {
		return false
	}
	batch := b.take()
	if len(batch) == 0 {
		return false
	}
	requests := make([]*abi.HttpRequest, len(batch))
	for i, e := range batch {
		requests[i] = e.request
	}
	results, err := b.op.HTTP().DoAll(requests...)
	b.refused = ""
	for i, e := range batch {
		if err != nil {
			e.result.Err = err
		} else {
			e.result = results[i]
		}
		b.seen.add(e.request, e.result)
		b.unanswered = unanswered(e.request, e.result.Err)
		if answer := e.result.Response; answer != nil && answer.Status == http.StatusUnauthorized {
			b.refused = refusal(e.request, answer.Status)
		}
		close(e.done)
	}
	return true
}

func unanswered(request *abi.HttpRequest, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s had no answer: %w", line(request), err)
}

// line is method and URL, without the query, which may hold secrets.
func line(request *abi.HttpRequest) string {
	address, _, _ := strings.Cut(request.Url, "?")
	return request.Method + " " + address
}

// explain adds to a provider's error why the op's latest request had no answer,
// unless the error says it, and that the cloud refused the credentials.
// errors.Is still finds the original.
func (b *bridge) explain(err error) error {
	b.host.Lock()
	defer b.host.Unlock()
	switch {
	case err == nil || sdk.CodeOf(err) != abi.CodeInternal:
		return err
	case b.refused != "" && sdk.CodeOf(convertError(err)) == abi.CodeInternal:
		return fmt.Errorf("%w (%w)", err, sdk.Unauthenticated(b.refused))
	case b.unanswered != nil:
		// The code of the host's error is dropped: the provider may mean
		// another request.
		return fmt.Errorf("%w (%s)", err, b.unanswered.Error())
	}
	if why := missing(err); why != "" {
		return fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

// take returns the requests that fit into a batch, without abandoned ones.
func (b *bridge) take() []*exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*exchange
	for len(b.queue) > 0 && len(batch) < abi.MaxHTTPBatch {
		if e := b.queue[0]; e.ctx.Err() == nil {
			batch = append(batch, e)
		}
		b.queue = b.queue[1:]
	}
	return batch
}

// event makes an Event for an object, "KIND/NAMESPACE/NAME", if it is the op's.
func (b *bridge) event(about, kind, reason, message string) {
	err := b.use(func(op *sdk.Op) error {
		if about != b.about {
			return fmt.Errorf("it is about %s, the op about %q", about, b.about)
		}
		return op.Event(kind == v1.EventTypeWarning, reason, message)
	})
	if err != nil {
		log.Printf("upstream: event %s %s %q was not made: %v", kind, reason, message, err)
	}
}
