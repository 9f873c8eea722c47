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
// thread, and a host call stops all of it: so it waits until nobody who can run
// wants to send something more, and sends that as one batch. While no op runs
// that may use the network, requests wait for the next.
type bridge struct {
	settings *Settings
	server   *proxy

	// host is held during a host call: its result is read in pieces, and
	// another goroutine may run between two of them.
	host sync.Mutex
	op   *sdk.Op // nil: no op that may use the network runs
	// opened is closed when op is set.
	opened chan struct{}
	seen   *witness // of the running op, may be nil
	// about is the object of the op, "KIND/NAMESPACE/NAME".
	about string
	// unanswered says why the latest request of the op had no answer, if it had
	// none: many clients only see how a connection ends.
	unanswered error
	// refused says which request of the latest batch was answered 401, if one was, and why.
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

// close waits for the running host call. What is not sent yet waits for the
// next op.
func (b *bridge) close() {
	b.yield()
	b.host.Lock()
	b.op, b.seen, b.opened = nil, nil, make(chan struct{})
	b.host.Unlock()
}

// witness records what the cloud answers from now on.
func (b *bridge) witness(w *witness) {
	b.host.Lock()
	b.seen = w
	b.host.Unlock()
}

// use makes a host call by the running op.
func (b *bridge) use(call func(*sdk.Op) error) error {
	b.host.Lock()
	defer b.host.Unlock()
	if b.op == nil {
		return sdk.Error(abi.CodeInternal, "upstream: a host call outside of an op")
	}
	return call(b.op)
}

// await makes a host call by the op that runs, or by the next one. about is the
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

// yields is how often everybody else may run before a batch leaves: what a
// request passes on its way (a proxy, TLS) is some goroutines long.
const yields = 8

func (b *bridge) yield() {
	for range yields {
		runtime.Gosched()
	}
}

// sendBatch reports whether there was something to send.
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

// line is method and URL, without a query, which may hold anything.
func line(request *abi.HttpRequest) string {
	address, _, _ := strings.Cut(request.Url, "?")
	return request.Method + " " + address
}

// explain adds to an error of the provider why the op's latest request had no
// answer, unless the error has it, and that the cloud refused the credentials.
// The error stays the same for errors.Is.
func (b *bridge) explain(err error) error {
	b.host.Lock()
	defer b.host.Unlock()
	switch {
	case err == nil || sdk.CodeOf(err) != abi.CodeInternal:
		return err
	case b.refused != "" && sdk.CodeOf(convertError(err)) == abi.CodeInternal:
		return fmt.Errorf("%w (%w)", err, sdk.Unauthenticated(b.refused))
	case b.unanswered != nil:
		// The code of the host's error is not passed on: the provider may mean another request.
		return fmt.Errorf("%w (%s)", err, b.unanswered.Error())
	}
	if why := missing(err); why != "" {
		return fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

// take is what fits into a batch, without those who gave up.
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

// event makes an Event of an object, "KIND/NAMESPACE/NAME", if it is the op's.
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
