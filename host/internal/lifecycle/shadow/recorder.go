package shadow

import (
	"cmp"
	"container/list"
	"context"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Options bound a Recorder. What is not above zero takes its default.
type Options struct {
	// MaxSamples are kept at most; 64.
	MaxSamples int
	// MaxBytes is how much memory all samples take at most, about; 8 MiB.
	MaxBytes int
	// MaxSampleBytes is how much one op may take with its host calls; 512 KiB.
	// A larger one is not kept.
	MaxSampleBytes int
}

func (o Options) withDefaults() Options {
	o.MaxSamples = orDefault(o.MaxSamples, 64)
	o.MaxBytes = orDefault(o.MaxBytes, 8<<20)
	o.MaxSampleBytes = min(orDefault(o.MaxSampleBytes, 512<<10), o.MaxBytes)
	return o
}

func orDefault[T cmp.Ordered](value, otherwise T) T {
	var zero T
	if value > zero {
		return value
	}
	return otherwise
}

// Recorder keeps recent read-only ops of one provider. It is safe for
// concurrent use.
type Recorder struct {
	options Options

	mu sync.Mutex
	// generation counts the resets: what began before one is not kept after it.
	generation uint64
	samples    list.List // of *Sample, the newest first
	index      map[sampleKey]*list.Element
	shares     map[abi.Op]share
	total      share
}

// sampleKey is a question: an op, and the object that it is about. What else is
// in the request is how the object is now. Ops on no object have their requests
// for it, which have no maps and so are encoded in one way.
type sampleKey struct {
	op    abi.Op
	about string
}

func sampleKeyOf(op abi.Op, request string) sampleKey {
	return sampleKey{op, cmp.Or(objectOf(op, []byte(request)), request)}
}

// share is what the samples of one op, or all, take.
type share struct{ samples, bytes int }

func (s share) plus(samples, bytes int) share {
	return share{s.samples + samples, s.bytes + bytes}
}

// NewRecorder returns an empty recorder.
func NewRecorder(options Options) *Recorder {
	return &Recorder{options: options.withDefaults(), index: map[sampleKey]*list.Element{}, shares: map[abi.Op]share{}}
}

// Begin is called when an op begins. For a read-only op it returns a context
// that makes Host record, and a function that is called with how the op ended;
// further calls of that do nothing. For other ops, and for those that are
// being recorded or replayed already, it returns the context as it is and a function that does
// nothing. An err that is an *abi.Error counts as its code. Request and
// response must not change until the function has returned; they are not kept.
func (r *Recorder) Begin(ctx context.Context, op abi.Op, request []byte) (context.Context, func(code abi.Code, response []byte, err error)) {
	if !op.Reads() || len(request)+sampleOverhead > r.options.MaxSampleBytes || ctx.Value(contextKey{}) != nil {
		return ctx, func(abi.Code, []byte, error) {}
	}
	r.mu.Lock()
	generation := r.generation
	r.mu.Unlock()
	rec := &recording{recorder: r, generation: generation, op: op, request: request, left: r.options.MaxSampleBytes - sampleOverhead - len(request)}
	return context.WithValue(ctx, contextKey{}, rec), rec.end
}

// Samples returns what is kept, the newest first, at most one for each op and
// object.
func (r *Recorder) Samples() []*Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	samples := make([]*Sample, 0, r.samples.Len())
	for e := r.samples.Front(); e != nil; e = e.Next() {
		samples = append(samples, e.Value.(*Sample))
	}
	return samples
}

// Reset forgets all, also the ops that are under way. It is for when another
// generation serves: the record of the one before says nothing of it.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.samples.Init()
	clear(r.index)
	clear(r.shares)
	r.total = share{}
}

// keep takes the place of an older sample of the same question.
func (r *Recorder) keep(generation uint64, s *Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation != r.generation {
		return
	}
	if older, ok := r.index[s.key]; ok {
		r.remove(older)
	}
	r.index[s.key] = r.samples.PushFront(s)
	r.count(s, 1)
	for r.total.samples > r.options.MaxSamples {
		r.remove(r.oldest(func(s share) int { return s.samples }))
	}
	for r.total.bytes > r.options.MaxBytes {
		r.remove(r.oldest(func(s share) int { return s.bytes }))
	}
}

// oldest returns the oldest sample of the op that takes most, so that an op
// asked once a minute is not crowded out by one that is asked all the time.
func (r *Recorder) oldest(size func(share) int) *list.Element {
	var greedy abi.Op
	for op, s := range r.shares {
		if size(s) > size(r.shares[greedy]) {
			greedy = op
		}
	}
	e := r.samples.Back()
	for e.Value.(*Sample).op != greedy {
		e = e.Prev()
	}
	return e
}

func (r *Recorder) remove(e *list.Element) {
	s := r.samples.Remove(e).(*Sample)
	delete(r.index, s.key)
	r.count(s, -1)
}

func (r *Recorder) count(s *Sample, sign int) {
	r.shares[s.op] = r.shares[s.op].plus(sign, sign*s.bytes)
	r.total = r.total.plus(sign, sign*s.bytes)
}

// recording is an op that is under way.
type recording struct {
	recorder   *Recorder
	generation uint64
	op         abi.Op
	request    []byte

	mu    sync.Mutex
	calls []call
	// left is how many bytes may still be kept; below zero: nothing is.
	left int
	// ended keeps a host call that outlives the op out of the sample.
	ended bool
}

// maxReadBytes is more than a read of the cache or the store can have: keys
// have 256 bytes at most. A longer request is a write.
const maxReadBytes = 1024

// add keeps a copy of a call whose answer a replay may need.
func (r *recording) add(name string, request []byte, code abi.Code, result []byte) {
	switch name {
	case abi.ImportLog, abi.CapabilityEvent, abi.CapabilityKube: // a fresh instance has another cursor, and reads all
		return
	case abi.CapabilityCache, abi.CapabilityStore:
		if len(request) > maxReadBytes {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.left < 0 {
		return
	}
	if r.left -= callOverhead + len(name) + len(request) + len(result); r.left < 0 {
		r.calls = nil
		return
	}
	if r.calls == nil {
		r.calls = make([]call, 0, 4) // few ops make more
	}
	r.calls = append(r.calls, call{name, string(request), code, string(result)})
}

// end makes a sample of the op when it has a proper answer and is not too
// large.
func (r *recording) end(code abi.Code, response []byte, err error) {
	o := newOutcome(code, response, err)
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.ended = true
	calls, left := r.calls, r.left-len(o.response)
	r.calls = nil
	r.mu.Unlock()
	if left < 0 || !o.proper() {
		return
	}
	request := string(r.request)
	r.recorder.keep(r.generation, &Sample{
		op: r.op, key: sampleKeyOf(r.op, request), request: request, code: o.code, response: string(o.response),
		calls: calls, bytes: r.recorder.options.MaxSampleBytes - left,
	})
}
