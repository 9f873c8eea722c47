package shadow

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Options bound a Recorder. Values of zero or less mean the default.
type Options struct {
	// MaxSamples bounds the samples; 64.
	MaxSamples int
	// MaxBytes bounds the approximate memory of all samples; 8 MiB.
	MaxBytes int
	// MaxSampleBytes bounds one op with its host calls; 512 KiB. A larger one is not kept.
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
	// generation counts the resets: an op that began before a reset is not kept.
	generation uint64
	samples    []*Sample // the newest first
}

// sampleKey is a question: an op and its object. Other fields of the request are the
// object's current state. An op without an object has its request as the key, which has no
// maps and so one encoding.
type sampleKey struct {
	op    abi.Op
	about string
}

func sampleKeyOf(op abi.Op, request []byte) sampleKey {
	if object := objectOf(op, request); object != "" {
		return sampleKey{op, object}
	}
	return sampleKey{op, string(request)}
}

// NewRecorder returns an empty recorder.
func NewRecorder(options Options) *Recorder { return &Recorder{options: options.withDefaults()} }

// Begin is called when an op begins. For a read-only op it returns a context that makes Host
// record, and a function to be called with the op's outcome; further calls of it do nothing.
// For other ops, and for those already recorded or replayed, it returns the same context and a
// function that does nothing. An err that is an *abi.Error counts as its code. Request and
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

// Samples returns the samples, the newest first, at most one for each op and object.
func (r *Recorder) Samples() []*Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.samples)
}

// Reset forgets all samples, also of running ops, when another generation serves: the old
// generation's record says nothing about the new one.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.samples = nil
}

// keep replaces an older sample of the same question.
func (r *Recorder) keep(generation uint64, s *Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation != r.generation {
		return
	}
	r.samples = slices.DeleteFunc(r.samples, func(x *Sample) bool { return x.key == s.key })
	r.samples = slices.Insert(r.samples, 0, s)
	r.bound(r.options.MaxSamples, func(*Sample) int { return 1 })
	r.bound(r.options.MaxBytes, func(s *Sample) int { return s.bytes })
}

// bound drops samples until the rest has the allowed size: the oldest of the op with the
// largest share, so that frequent ops do not crowd out rare ones.
func (r *Recorder) bound(most int, size func(*Sample) int) {
	total := 0
	for _, s := range r.samples {
		total += size(s)
	}
	for total > most {
		var greedy abi.Op
		shares, oldest := map[abi.Op]int{}, map[abi.Op]int{}
		for i, s := range r.samples {
			shares[s.op] += size(s)
			oldest[s.op] = i
			if shares[s.op] > shares[greedy] {
				greedy = s.op
			}
		}
		i := oldest[greedy]
		total -= size(r.samples[i])
		r.samples = slices.Delete(r.samples, i, i+1)
	}
}

// recording is a running op.
type recording struct {
	recorder   *Recorder
	generation uint64
	op         abi.Op
	request    []byte

	mu    sync.Mutex
	calls []call
	// left is the remaining room in bytes; below zero: the op is not kept.
	left int
	// ended excludes host calls that outlive the op.
	ended bool
}

// maxReadBytes is larger than any read of the cache or the store: keys have 256 bytes at
// most. A longer request is a write.
const maxReadBytes = 1024

// add copies a call whose answer a replay may need.
func (r *recording) add(name string, request []byte, code abi.Code, result []byte) {
	switch name {
	case abi.ImportLog, abi.CapabilityEvent, abi.CapabilityKube: // a fresh instance has its own cursor, and reads from the start
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

// end makes a sample of an op with a proper answer that is not too large.
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
	r.recorder.keep(r.generation, &Sample{
		op: r.op, key: sampleKeyOf(r.op, r.request), request: string(r.request), code: o.code, response: string(o.response),
		calls: calls, bytes: r.recorder.options.MaxSampleBytes - left,
	})
}
