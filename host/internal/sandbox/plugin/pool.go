package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Reasons for discarding an instance.
const (
	DiscardFailed   = "failed"   // it trapped or broke the calling convention
	DiscardDeadline = "deadline" // its op timed out
	DiscardQuota    = "quota"    // it has run its number of ops
	DiscardClosed   = "closed"   // its generation was replaced
	DiscardFresh    = "fresh"    // it was made for one op
	DiscardIdle     = "idle"     // its generation is kept in reserve
	DiscardUnused   = "unused"   // others sufficed for unusedAfter
)

// unusedAfter is the idle time after which an instance's memory is returned, while others
// serve. A burst of Services needs many; the periodic ops need one.
const unusedAfter = 5 * time.Minute

// Observer hears of the instances of all pools. Its methods must be safe for concurrent use
// and must not block.
type Observer interface {
	InstanceCreated()
	InstanceDiscarded(reason string)
}

var errPoolClosed = errors.New("the pool is closed")

// pool lends the instances of one module. No lock is held while an instance
// is made or runs. Instances that failed never come back.
type pool struct {
	module  engine.Module
	prepare func(context.Context, engine.Instance) error
	// snapshot is the beginning of instances, in place of their preparation, or nil. The pool
	// owns and closes it; it is set before the first instance is made.
	snapshot engine.Snapshot
	observer Observer
	maxCalls int

	// tokens holds one token for each further instance that may be lent.
	tokens chan struct{}

	mu     sync.Mutex
	idle   []*lent // the most recently used one is last
	closed bool
	// waiting counts the ops waiting for a token; asides are the ops that give way.
	waiting int
	asides  map[*aside]struct{}
}

// aside is an op that gives way to others.
type aside struct{ cancel context.CancelCauseFunc }

// ErrGaveWay is the error of an op that ended for a waiting one.
var ErrGaveWay = errors.New("it gave way to another op: every instance is busy")

// lent is an instance with its number of ops.
type lent struct {
	engine.Instance
	calls int
	since time.Time // start of its idle time
}

func newPool(module engine.Module, prepare func(context.Context, engine.Instance) error, limits Limits, observer Observer) *pool {
	p := &pool{
		module: module, prepare: prepare, observer: observer,
		maxCalls: limits.MaxCallsPerInstance,
		tokens:   make(chan struct{}, limits.MaxInstances), asides: map[*aside]struct{}{},
	}
	for range limits.MaxInstances {
		p.tokens <- struct{}{}
	}
	return p
}

// poolCall is call or callFresh.
type poolCall func(p *pool, ctx context.Context, op abi.Op, request []byte) (engine.Result, error)

// wait takes a token, which its caller returns.
//
// Invariant M3 (host/SECURITY.md): every op has a token, and there are as many as allowed
// instances.
func (p *pool) wait(ctx context.Context) error {
	select {
	case <-p.tokens:
		return nil
	default:
	}
	defer p.giveWay()()
	select {
	case <-p.tokens:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("all %d instances are busy: %w", cap(p.tokens), ctx.Err())
	}
}

// giveWay ends the ops that give way, and prevents new ones until the returned function is
// called.
func (p *pool) giveWay() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	for a := range p.asides {
		a.cancel(ErrGaveWay)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting--
	}
}

// waitAside is wait for an op that gives way: its context ends when another op waits. leave
// returns the token.
func (p *pool) waitAside(ctx context.Context) (of context.Context, leave func(), err error) {
	of, cancel := context.WithCancelCause(ctx)
	a := &aside{cancel}
	p.mu.Lock()
	if p.waiting > 0 {
		cancel(ErrGaveWay)
	}
	p.asides[a] = struct{}{}
	p.mu.Unlock()
	end := func() {
		p.mu.Lock()
		delete(p.asides, a)
		p.mu.Unlock()
		cancel(nil)
	}
	if of.Err() == nil {
		select {
		case <-p.tokens:
			return of, func() { end(); p.release() }, nil
		case <-of.Done():
		}
	}
	err = fmt.Errorf("all %d instances are busy: %w", cap(p.tokens), context.Cause(of))
	end()
	return nil, nil, err
}

// release returns a token.
func (p *pool) release() { p.tokens <- struct{}{} }

// callFresh runs one op in a new instance, which is then discarded. The caller holds a
// token, so the bound on running instances holds.
func (p *pool) callFresh(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	instance, err := p.create(ctx)
	if err != nil {
		return engine.Result{}, err
	}
	result, err := instance.Call(ctx, op, request)
	_ = p.discard(ctx, instance, DiscardFresh) // the op has its answer
	return result, err
}

// call runs one op in some instance. The caller holds a token.
func (p *pool) call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	instance, err := p.take(ctx)
	if err != nil {
		return engine.Result{}, err
	}
	result, err := instance.Call(ctx, op, request)
	instance.calls++
	p.putBack(ctx, instance, err)
	return result, err
}

// take returns the most recently used instance, or makes one.
func (p *pool) take(ctx context.Context) (*lent, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errPoolClosed
	}
	if n := len(p.idle); n > 0 {
		instance := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return instance, nil
	}
	p.mu.Unlock()
	return p.create(ctx)
}

func (p *pool) create(ctx context.Context) (*lent, error) {
	if p.snapshot != nil {
		// Invariant C5 (host/SECURITY.md): it has the bounds of any new instance: the context, a
		// token and the engine's limits.
		instance, err := p.snapshot.Instantiate(ctx)
		if err != nil {
			return nil, fmt.Errorf("a new instance: %w", err)
		}
		p.observer.InstanceCreated()
		return &lent{Instance: instance}, nil
	}
	instance, err := p.module.Instantiate(ctx)
	if err != nil {
		return nil, err
	}
	p.observer.InstanceCreated()
	if err := p.prepare(ctx, instance); err != nil {
		_ = p.discard(ctx, instance, DiscardFailed) // the first error matters more
		return nil, fmt.Errorf("a new instance: %w", notAnAnswer(err))
	}
	return &lent{Instance: instance}, nil
}

// notAnAnswer turns a guest's answer to another request into an error: its
// "instance_not_found" to configure says nothing about the op's instance.
func notAnAnswer(err error) error {
	var answer *abi.Error
	if errors.As(err, &answer) {
		return fmt.Errorf("configure: %s (%s)", answer.Error(), answer.Code)
	}
	return err
}

func (p *pool) putBack(ctx context.Context, instance *lent, err error) {
	reason := ""
	p.mu.Lock()
	switch {
	// Invariant M7 (host/SECURITY.md): an instance returns to the pool only after an op without an
	// error.
	case err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		reason = DiscardDeadline
	case err != nil:
		reason = DiscardFailed
	case p.closed:
		reason = DiscardClosed
	case p.maxCalls > 0 && instance.calls >= p.maxCalls:
		reason = DiscardQuota
	default:
		now := time.Now()
		instance.since = now
		p.idle = append(p.idle, instance)
		if instance = p.idle[0]; now.Sub(instance.since) > unusedAfter {
			p.idle, reason = slices.Delete(p.idle, 0, 1), DiscardUnused
		}
	}
	p.mu.Unlock()
	if reason != "" {
		// The op has its answer, whether or not the close fails.
		_ = p.discard(ctx, instance, reason)
	}
}

// discard closes an instance, also after the op's deadline.
func (p *pool) discard(ctx context.Context, instance engine.Instance, reason string) error {
	p.observer.InstanceDiscarded(reason)
	return instance.Close(context.WithoutCancel(ctx))
}

// trim closes the idle instances.
func (p *pool) trim(ctx context.Context) {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, instance := range idle {
		_ = p.discard(ctx, instance, DiscardIdle) // nobody waits for it
	}
}

// close ends the pool: it waits until every lent instance has returned, and closes them all.
// After it only close may be called.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, instance := range idle {
		errs = append(errs, p.discard(ctx, instance, DiscardClosed))
	}
	for range cap(p.tokens) {
		<-p.tokens
	}
	if p.snapshot != nil {
		errs = append(errs, p.snapshot.Close())
	}
	return errors.Join(errs...)
}
