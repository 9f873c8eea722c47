package source

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// togetherPeriod is how long a change waits for one of the other part: applying a module and
// its configuration writes two objects, one after the other.
const togetherPeriod = 500 * time.Millisecond

// configured is a source with the configuration elsewhere than the module.
type configured struct {
	src    Source
	config configuration
	// together is how long a change waits for one of the other part.
	together time.Duration
}

// configuration is a place of a configuration apart from the module. One goroutine reads it.
type configuration interface {
	// watch signals on changed after possible changes, until the context ends.
	watch(ctx context.Context, changed chan<- struct{})
	// read returns the content; known is false before the first one.
	read(ctx context.Context) (config []byte, known bool, err error)
	// put puts a configuration into what the source offers.
	put(bundle Bundle, config []byte) (Bundle, error)
	// ref is the object at the last read, or nil.
	ref() *corev1.ObjectReference
}

type offer struct {
	bundle Bundle
	err    error
}

// Run watches both; see Source.
func (c *configured) Run(ctx context.Context, handle Handler) {
	offers := make(chan offer)
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.config.watch(ctx, changed) })
	wg.Go(func() {
		c.src.Run(ctx, func(bundle Bundle, err error) {
			select {
			case offers <- offer{bundle, err}:
			case <-ctx.Done():
			}
		})
	})
	c.merge(ctx, offers, changed, &publisher{handle: handle})
}

// merge publishes both contents until the context ends.
func (c *configured) merge(ctx context.Context, offers <-chan offer, changed <-chan struct{}, p *publisher) {
	var module *offer
	var config struct {
		data  []byte
		known bool
		err   error
	}
	var due <-chan time.Time
	wait := time.Duration(0) // the first content is published at once
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-offers:
			module = &o
		case <-changed:
			config.data, config.known, config.err = c.config.read(ctx)
		case <-due:
			due, wait = nil, c.together
			p.publish(c.with(*module, config.data, config.err))
			continue
		}
		if module != nil && config.known && due == nil {
			due = time.After(wait)
		}
	}
}

// with combines the configuration with the source's offer.
func (c *configured) with(o offer, config []byte, err error) (Bundle, error) {
	if o.err != nil {
		return o.bundle, o.err
	}
	bundle := o.bundle
	if err == nil {
		bundle, err = c.config.put(bundle, config)
	}
	if err != nil {
		return Bundle{Origin: o.bundle.Origin, Ref: o.bundle.Ref, ConfigRef: c.config.ref()}, err
	}
	bundle.ConfigRef = c.config.ref()
	bundle.Revision, err = revision(bundle)
	return bundle, err
}
