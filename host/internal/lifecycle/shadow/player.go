package shadow

import (
	"fmt"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxScratchBytes bounds what a replayed op can put into its cache. More is
// dropped, as the real cache may drop a value at any time.
const maxScratchBytes = 2 << 20

// player answers the host calls of one replayed op from its sample.
type player struct {
	mu        sync.Mutex
	recorded  map[callKey]*answers
	exchanges exchanges
	// scratch is the cache of this op alone.
	scratch      map[string][]byte
	scratchBytes int
	// missing is the first host call without a recorded answer, or "".
	missing string
}

type callKey struct{ name, request string }

// answers are those to one request, in the order they were given.
type answers struct {
	calls []call
	next  int
}

// take returns the next answer, and repeats the last one: only reads are
// matched this way.
func (a *answers) take() call {
	answer := a.calls[min(a.next, len(a.calls)-1)]
	a.next++
	return answer
}

func newPlayer(s *Sample) *player {
	p := &player{recorded: map[callKey]*answers{}, exchanges: exchanges{}, scratch: map[string][]byte{}}
	for _, c := range s.calls {
		if c.name == abi.CapabilityHTTP {
			p.exchanges.add(c)
			continue
		}
		key := callKey{c.name, c.request}
		if p.recorded[key] == nil {
			p.recorded[key] = &answers{}
		}
		p.recorded[key].calls = append(p.recorded[key].calls, c)
	}
	return p
}

// hostCall never reaches the real host calls.
func (p *player) hostCall(name string, request []byte) (abi.Code, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch name {
	case abi.ImportLog, abi.CapabilityEvent:
		return abi.CodeOK, nil
	case abi.CapabilityCache:
		return p.cache(request)
	case abi.CapabilityStore:
		return p.store(request)
	case abi.CapabilityHTTP:
		return p.send(request)
	case abi.CapabilityKube: // a patch, which like an Event is no part of the answer
		return abi.CodeOK, nil
	}
	if code, result, ok := p.exact(name, request); ok {
		return code, result
	}
	return p.miss(text.Line(name, maxKeyText))
}

// exact finds an answer to the very same request.
func (p *player) exact(name string, request []byte) (abi.Code, []byte, bool) {
	found := p.recorded[callKey{name, string(request)}]
	if found == nil {
		return 0, nil, false
	}
	c := found.take()
	return c.code, []byte(c.result), true
}

// cache keeps what the op puts for itself. A key that it did not put, and that
// was not recorded, is not there: a cache may forget.
func (p *player) cache(request []byte) (abi.Code, []byte) {
	var m abi.CacheRequest
	if err := wire.UnmarshalWithin(request, &m, wire.MaxRequestOverhead); err != nil {
		return fail(abi.CodeInvalid, "cache: the request does not decode")
	}
	if m.GetPut() != nil {
		p.put(m.GetKey(), m.GetPut().GetValue())
		return abi.CodeOK, nil
	}
	if value, ok := p.scratch[m.GetKey()]; ok {
		return encode(&abi.CacheResponse{Found: true, Value: value})
	}
	if code, result, ok := p.exact(abi.CapabilityCache, request); ok {
		return code, result
	}
	return encode(&abi.CacheResponse{})
}

func (p *player) put(key string, value []byte) {
	size := callOverhead + len(key) + len(value)
	if older, ok := p.scratch[key]; ok {
		p.scratchBytes -= callOverhead + len(key) + len(older)
		delete(p.scratch, key)
	}
	if p.scratchBytes+size <= maxScratchBytes {
		p.scratch[key] = value
		p.scratchBytes += size
	}
}

// store reads from the record and never writes.
func (p *player) store(request []byte) (abi.Code, []byte) {
	var m abi.StoreRequest
	if err := wire.UnmarshalWithin(request, &m, wire.MaxRequestOverhead); err != nil {
		return fail(abi.CodeInvalid, "store: the request does not decode")
	}
	if m.GetWrite() != nil {
		p.noteMissing("writes to the store, which no replayed op may")
		return fail(abi.CodeDenied, "store: an op that is asked again for comparison writes nothing")
	}
	if code, result, ok := p.exact(abi.CapabilityStore, request); ok {
		return code, result
	}
	return p.miss(abi.CapabilityStore)
}

// miss answers a call that is not in the record. The other side cannot be
// reached from here, and guests know that this happens.
func (p *player) miss(what string) (abi.Code, []byte) {
	p.noteMissing(fmt.Sprintf("asks %s, which was not recorded", what))
	return fail(abi.CodeUnavailable, missText)
}

// missText is what the guest is told.
const missText = "this op is asked again for comparison, and this call was not recorded"

func (p *player) noteMissing(reason string) {
	if p.missing == "" {
		p.missing = reason
	}
}

// firstMissing says what the op did that the record has no answer to, or "".
func (p *player) firstMissing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

func fail(code abi.Code, message string) (abi.Code, []byte) {
	_, detail := encode(&abi.ErrorDetail{Message: message})
	return code, detail
}

// encode returns the answer to a host call.
func encode(m abi.Message) (abi.Code, []byte) {
	size := m.SizeVT()
	if size > abi.MaxHostResultBytes {
		return abi.CodeTooLarge, nil
	}
	data := make([]byte, size)
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		return abi.CodeInternal, nil
	}
	return abi.CodeOK, data
}
