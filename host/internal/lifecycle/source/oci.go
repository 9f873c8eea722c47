package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

// OCIOptions say how an image is read. Fields with a default have it as their zero value.
type OCIOptions struct {
	Reference registry.Reference
	// Once: the tag's target is asked for once, not at each interval. A reference by digest is
	// always asked for once.
	Once bool
	// Interval is the longest time until a change is seen, and between two tries after failures.
	// Default 5 min.
	Interval time.Duration
	// CABundle holds certificates in PEM that verify the registry, in place of the system's.
	CABundle string
	// UserAgent identifies the manager in the registry's log.
	UserAgent string
	// PullSecret has the credentials; nil: none.
	PullSecret *PullSecret
	// Reached, unless nil, is told whether the registry answers: nil if it does, and again after
	// each change. It must not block.
	Reached func(err error)
	// Policy returns the policy for an image before its layer is fetched; nil: none. Renewed is
	// signalled after a change of the policy: a refused image is examined again.
	Policy  func() *provenance.Policy
	Renewed <-chan struct{}
	// Pulls, unless nil, is told of each image before it is fetched.
	Pulls  Pulls
	Limits Limits
	// Clock is the real one by default.
	Clock clock.Clock
}

// The times of looks at the registry.
const (
	defaultInterval = 5 * time.Minute
	// firstRetry doubles up to the interval.
	firstRetry = 2 * time.Second
	// resolveTimeout and pullTimeout bound one look.
	resolveTimeout = 30 * time.Second
	pullTimeout    = 5 * time.Minute
)

// OCI is a source that reads an image from a registry. While the registry does not answer,
// the last content stays: Reached is told, and the handler only if it was never told
// anything.
type OCI struct {
	options OCIOptions
	last    registry.State // last read state
	// refusing is the policy that refused the image, or nil. held: reading it was not allowed.
	refusing *provenance.Policy
	held     bool
	told     bool          // the handler was told of content of the registry
	reached  *string       // last told to Reached; nil: nothing yet
	delay    time.Duration // before the next try
}

// NewOCI returns the source for an image.
func NewOCI(o OCIOptions) *OCI {
	o.Limits = o.Limits.withDefaults(0)
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Reached == nil {
		o.Reached = func(error) {}
	}
	return &OCI{options: o}
}

// Run looks at the registry; see Source.
func (o *OCI) Run(ctx context.Context, handle Handler) {
	var wg sync.WaitGroup
	defer wg.Wait()
	renewed := o.options.PullSecret.run(ctx, &wg)
	p := publisher{handle: handle}
	for ctx.Err() == nil {
		// Invariant I2 (host/SECURITY.md): a failing registry changes only the reported state.
		o.wait(ctx, o.look(ctx, &p), renewed)
	}
}

// wait returns when the registry should be asked again, or the context ends.
func (o *OCI) wait(ctx context.Context, again <-chan time.Time, renewed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			return
		case <-renewed:
			o.delay = 0
			return
		case <-o.options.Renewed:
			if o.refusing != nil {
				return
			}
		}
	}
}

// look asks the registry once, and returns when to ask again; never if nothing can change.
func (o *OCI) look(ctx context.Context, p *publisher) <-chan time.Time {
	bundle, err := o.read(ctx)
	if ctx.Err() != nil {
		return nil
	}
	var failure *registry.Error
	if errors.As(err, &failure) && failure.Passing() {
		o.tell(err)
		if !o.told {
			p.publish(o.origin(), &Error{Reason: failure.Reason, Err: failure, Passing: true})
		}
		return o.options.Clock.After(o.retry())
	}
	o.tell(nil)
	if bundle != nil || err != nil {
		o.told = true
		p.publish(o.offer(bundle, err))
	}
	if quota.Short(err) {
		return o.options.Clock.After(o.retry())
	}
	o.delay = 0
	if !o.held && (o.options.Once || o.options.Reference.Digest() != "") {
		return nil
	}
	// Managers that started together should not ask together.
	return o.options.Clock.After(jitter(o.options.Interval))
}

// tell reports each change of the registry's state once.
func (o *OCI) tell(err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if o.reached == nil || *o.reached != said {
		o.reached = &said
		o.options.Reached(err)
	}
}

// jitter subtracts a tenth to a fifth: new content should serve within the interval, and
// must be pulled and compiled first.
func jitter(d time.Duration) time.Duration { return d - d/10 - rand.N(d/10+1) }

// retry is the delay before the next try.
func (o *OCI) retry() time.Duration {
	o.delay = min(max(2*o.delay, firstRetry), o.options.Interval)
	return jitter(o.delay)
}

// origin is a bundle without content.
func (o *OCI) origin() Bundle { return Bundle{Origin: "image " + o.options.Reference.String()} }

func (o *OCI) offer(bundle *Bundle, err error) (Bundle, error) {
	if err == nil {
		return *bundle, nil
	}
	var known *registry.Error
	if errors.As(err, &known) {
		err = &Error{Reason: known.Reason, Err: known.Err}
	}
	return o.origin(), err
}

// read returns the registry's content, or nil if it is unchanged.
func (o *OCI) read(ctx context.Context) (*Bundle, error) {
	keys, err := o.options.PullSecret.keys(ctx)
	if err != nil {
		return nil, &registry.Error{Reason: registry.ReasonDenied, Err: fmt.Errorf("%s: %w", o.origin().Origin, err)}
	}
	stored := map[string]*File{}
	client, err := registry.New(o.options.Reference, registry.Options{
		Keep: o.keep(stored), Verify: o.verify,
		CABundle: o.options.CABundle, Keys: keys, KeysOf: o.options.PullSecret.String(), AddKeys: "kubectl create secret docker-registry --docker-server=", UserAgent: o.options.UserAgent, MaxFile: o.options.Limits.MaxModule,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	state, err := o.resolve(ctx, client)
	if passing := (*registry.Error)(nil); errors.As(err, &passing) && !passing.Passing() {
		o.last = registry.State{} // the content is reported anew
	}
	if err != nil || state == o.last && (o.refusing == nil || o.refusing == o.options.Policy()) {
		return nil, err
	}
	return o.pull(ctx, client, state, stored)
}

// pull reads the registry's image. An image that must not or could not be read leaves no
// trace: it is tried again.
func (o *OCI) pull(ctx context.Context, client *registry.Client, state registry.State, stored map[string]*File) (*Bundle, error) {
	// Invariant I10 (host/SECURITY.md): an image that ends the manager is known to its
	// successor.
	done, err := o.begin(ctx, state.Image)
	o.last, o.refusing, o.held = registry.State{}, nil, err != nil
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	image, err := client.Pull(ctx, state)
	var failure *registry.Error
	if errors.As(err, &failure) && failure.Passing() {
		return nil, err
	}
	var bundle *Bundle
	if err == nil {
		bundle, err = o.open(image, stored)
	}
	if !quota.Short(err) {
		o.last = state // an invalid image is not read again
	}
	return bundle, err
}

// keep stores large modules that are not compressed themselves.
func (o *OCI) keep(stored map[string]*File) func(string, int64, io.Reader) (bool, error) {
	store := o.options.Limits.Store
	if store == nil {
		return nil
	}
	return func(name string, size int64, content io.Reader) (taken bool, err error) {
		if size < largeModule || !isModule(name) || compressionOf(name) != "" {
			return false, nil
		}
		stored[name], err = store.Put(content, o.options.Limits.MaxModule)
		if errors.Is(err, errTooLarge) {
			err = tooLarge(name, o.options.Limits)
		}
		return true, err
	}
}

func (o *OCI) resolve(ctx context.Context, client *registry.Client) (registry.State, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	return client.Resolve(ctx)
}

// open makes a bundle of an image, by the rules for a directory.
func (o *OCI) open(image *registry.Image, stored map[string]*File) (*Bundle, error) {
	read := func(name string, _ int64) ([]byte, error) { return image.Files[name], nil }
	part := func(p part, _ int64) ([]byte, error) {
		if image.Files[p.file()] == nil {
			return nil, errNoPart
		}
		return image.Files[p.file()], nil
	}
	bundle, err := box{names: slices.Collect(maps.Keys(image.Files)), read: read, part: part, stored: stored, beside: true}.open(o.options.Limits)
	origin := o.origin().Origin
	if err != nil {
		return nil, inside(err, origin)
	}
	bundle.Origin, bundle.Image = origin, image.Digest
	s := signaturesOf(image)
	s.Beside = bundle.Signature
	if len(s.Signatures) == 0 {
		return &bundle, nil
	}
	if bundle.Signature, err = s.Encode(); err != nil {
		return nil, failed(ReasonSignatureTooLarge, "%s: %w", origin, err)
	}
	return &bundle, nil
}

// signaturesOf returns the image's signatures, without the one beside the module.
func signaturesOf(image *registry.Image) provenance.ImageSignatures {
	s := provenance.ImageSignatures{Document: image.Document}
	for _, one := range image.Signatures {
		s.Signatures = append(s.Signatures, provenance.ImageSignature{Payload: one.Payload, Base64: one.Base64})
	}
	s.AddBundles(image.Bundles)
	return s
}
