package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// crash is the moment at which an op ends, as by the end of the manager.
type crash int

const (
	noCrash crash = iota
	// crashBefore ends the op before a request is carried out.
	crashBefore
	// crashAfter ends the op after the request, before the guest has the answer.
	crashAfter
)

func (c crash) String() string { return [...]string{"no crash", "crash before", "crash after"}[c] }

// plan describes a disturbance of the requests (HTTP requests and calls of the
// store) of one or more ops. It happens once, at one position, or to all.
type plan struct {
	// at is the position from 1 on; 0 is every request.
	at    int
	fault *fault
	crash crash
	// onwards: the disturbance covers all requests from the position on.
	onwards bool
	// writes: only changing requests count.
	writes bool

	seen  int
	fired bool
	// dead: the op has crashed, and its further requests are not carried out.
	dead bool
}

// patient disturbs nothing; drive then continues after errors.
func patient() *plan { return &plan{at: -1} }

// meets reports whether the plan disturbs the next request.
func (p *plan) meets(write, store bool) bool {
	if p == nil || p.dead || p.writes && !write {
		return false
	}
	if f := p.fault; f != nil && (store && f.store == abi.CodeOK || write && f.readsOnly) {
		return false
	}
	p.seen++
	if p.at != 0 && p.seen != p.at && (!p.onwards || p.seen < p.at) {
		return false
	}
	p.fired = true
	return true
}

// exchange is one request of a guest and its outcome.
type exchange struct {
	what  string // method and path
	how   string // status, code or fault
	write bool
}

func (e exchange) String() string { return e.what + " -> " + e.how }

// injector sits between the host calls and their implementation. One op runs at
// a time.
type injector struct {
	http    hostfunc.HTTP
	store   hostfunc.Store
	server  *faultServer
	actions actions

	mu     sync.Mutex
	plan   *plan
	cancel context.CancelFunc // ends the op
	trace  []exchange
}

// maxTrace bounds the recorded exchanges of one op.
const maxTrace = 1000

// begin starts an op; a crash calls cancel.
func (i *injector) begin(p *plan, cancel context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.plan, i.cancel, i.trace = p, cancel, nil
}

// end returns the op's exchanges, and whether it crashed.
func (i *injector) end() (trace []exchange, crashed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plan != nil {
		crashed, i.plan.dead = i.plan.dead, false
	}
	trace, i.plan, i.trace = i.trace, nil, nil
	return trace, crashed
}

func (i *injector) record(e exchange) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.trace) < maxTrace {
		i.trace = append(i.trace, e)
	}
}

// die ends the op.
func (i *injector) die() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.plan.dead = true
	i.cancel()
	return &abi.Error{Code: abi.CodeDeadline, Message: "the op was ended"}
}

// next decides the fate of a request.
func (i *injector) next(write, store bool) (f *fault, c crash, dead bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plan != nil && i.plan.dead {
		return nil, noCrash, true
	}
	if !i.plan.meets(write, store) {
		return nil, noCrash, false
	}
	return i.plan.fault, i.plan.crash, false
}

// Send implements hostfunc.HTTP. Requests of a batch count one by one: one of
// them may fail, and an op can end after a part of them.
func (i *injector) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	met := make([]*fault, len(requests))
	for n, request := range requests {
		f, c, dead := i.next(i.actions.write(request), false)
		switch {
		case dead:
			return nil, &abi.Error{Code: abi.CodeDeadline, Message: "the op was ended"}
		case c != noCrash:
			carried := requests[:n]
			if c == crashAfter {
				carried = requests[:n+1]
			}
			return nil, i.crashed(ctx, carried, request, c)
		}
		met[n] = f
	}
	return i.sendAll(ctx, requests, met)
}

// crashed carries out a part of a batch, and ends the op.
func (i *injector) crashed(ctx context.Context, carried []*abi.HttpRequest, at *abi.HttpRequest, c crash) error {
	if len(carried) > 0 {
		if _, err := i.sendAll(ctx, carried, make([]*fault, len(carried))); err != nil {
			i.record(exchange{"the requests before", err.Error(), false})
		}
	}
	i.record(exchange{i.actions.about(at), c.String() + " it was carried out", false})
	return i.die()
}

func (i *injector) sendAll(ctx context.Context, requests []*abi.HttpRequest, met []*fault) ([]*abi.HttpResult, error) {
	results, err := i.sendBatch(ctx, requests, met)
	if err != nil {
		return nil, err
	}
	for n, request := range requests {
		e := exchange{i.actions.about(request), outcomeOf(results[n]), i.actions.write(request)}
		if met[n] != nil {
			e.how += " (fault " + met[n].name + ")"
		}
		i.record(e)
	}
	return results, nil
}

// sendBatch sends a batch without faulty requests as one.
func (i *injector) sendBatch(ctx context.Context, requests []*abi.HttpRequest, met []*fault) ([]*abi.HttpResult, error) {
	if !slices.ContainsFunc(met, func(f *fault) bool { return f != nil }) {
		return i.http.Send(ctx, requests)
	}
	results := make([]*abi.HttpResult, len(requests))
	var wg sync.WaitGroup
	for n, request := range requests {
		wg.Go(func() { results[n] = i.sendOne(ctx, request, met[n]) })
	}
	wg.Wait()
	return results, nil
}

func (i *injector) sendOne(ctx context.Context, request *abi.HttpRequest, f *fault) *abi.HttpResult {
	send := i.http.Send
	if f != nil && f.mangle == nil {
		send = func(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
			return i.server.send(ctx, f, requests)
		}
	}
	results, err := send(ctx, []*abi.HttpRequest{request})
	if err != nil || len(results) != 1 {
		return &abi.HttpResult{Code: uint32(abi.CodeInternal), Error: &abi.ErrorDetail{Message: fmt.Sprintf("the request was not sent: %v", err)}}
	}
	if f != nil && f.mangle != nil {
		f.mangle(results[0])
	}
	return results[0]
}

func outcomeOf(r *abi.HttpResult) string {
	if r.Response != nil {
		return fmt.Sprint(r.Response.Status)
	}
	return abi.Code(r.Code).String()
}

// Read implements hostfunc.Store.
func (i *injector) Read(ctx context.Context, prefix string) (*abi.StoreResponse, error) {
	return i.callStore(ctx, "store read "+prefix, false, func() (*abi.StoreResponse, error) { return i.store.Read(ctx, prefix) })
}

// Write implements hostfunc.Store.
func (i *injector) Write(ctx context.Context, write *abi.StoreWrite) (*abi.StoreResponse, error) {
	var keys []string
	for _, e := range write.Put {
		keys = append(keys, "+"+e.Key)
	}
	for _, key := range write.Delete {
		keys = append(keys, "-"+key)
	}
	what := "store write " + text.Line(strings.Join(keys, " "), 200)
	return i.callStore(ctx, what, true, func() (*abi.StoreResponse, error) { return i.store.Write(ctx, write) })
}

func (i *injector) callStore(ctx context.Context, what string, write bool, call func() (*abi.StoreResponse, error)) (*abi.StoreResponse, error) {
	f, c, dead := i.next(write, true)
	switch {
	case dead:
		return nil, &abi.Error{Code: abi.CodeDeadline, Message: "the op was ended"}
	case f != nil:
		if f.lost {
			_, _ = call() // the answer is lost
		}
		return nil, i.storeFault(ctx, what, f)
	}
	if c != crashBefore {
		response, err := call()
		if c == noCrash {
			i.record(exchange{what, codeName(err), write})
			return response, err
		}
	}
	i.record(exchange{what, c.String() + " it was carried out", write})
	return nil, i.die()
}

func (i *injector) storeFault(ctx context.Context, what string, f *fault) error {
	if f.hangs {
		<-ctx.Done()
	}
	e := &abi.Error{Code: f.store, Message: "the store fails, as the fault " + f.name + " asks"}
	if f.store == abi.CodeThrottled {
		e.RetryAfter = retryAfter
	}
	i.record(exchange{what, f.store.String() + " (fault " + f.name + ")", false})
	return e
}

func codeName(err error) string {
	if err == nil {
		return "ok"
	}
	return codeOf(err).String()
}
