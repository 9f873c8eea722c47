package shadow

import (
	"context"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// maxScratchBytes bounds the cache of a rehearsed op. More is dropped, as the real cache may
// drop a value at any time.
const maxScratchBytes = 2 << 20

// player answers the host calls of one rehearsed op.
type player struct {
	mu        sync.Mutex
	recorded  map[callKey][]call // in the order of the calls
	exchanges exchanges
	// scratch is the op's private cache.
	scratch      map[string][]byte
	scratchBytes int
	// left reports that a host call was really made. own is stopped meanwhile.
	left bool
	own  *stopwatch
	// open passes all calls on, for the serving generation.
	open bool
}

type callKey struct{ name, request string }

// newPlayer returns a player with the record of a sample, which may be nil.
func newPlayer(s *Sample, own *stopwatch) *player {
	p := &player{own: own, recorded: map[callKey][]call{}, exchanges: exchanges{}, scratch: map[string][]byte{}}
	if s == nil {
		return p
	}
	for _, c := range s.calls {
		if c.name == abi.CapabilityHTTP {
			p.exchanges.add(c)
			continue
		}
		key := callKey{c.name, c.request}
		p.recorded[key] = append(p.recorded[key], c)
	}
	return p
}

// live makes a host call for real. The context has the gate.
type live func(name string, request []byte) (abi.Code, []byte)

func (p *player) hostCall(ctx context.Context, next HostCaller, name string, request []byte) (abi.Code, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ask := func(name string, request []byte) (abi.Code, []byte) {
		p.own.stop()
		defer p.own.run()
		return next.HostCall(ctx, name, request)
	}
	if p.open {
		return ask(name, request)
	}
	switch name {
	case abi.ImportLog, abi.CapabilityEvent:
		return abi.CodeOK, nil
	case abi.CapabilityCache:
		return p.cache(ask, request)
	case abi.CapabilityHTTP:
		return p.send(ask, request)
	case abi.CapabilityStore:
		if writesStore(request) {
			break // never from the record
		}
		fallthrough
	default:
		if code, result, ok := p.exact(name, request); ok {
			return code, result
		}
	}
	p.left = true
	return ask(name, request)
}

func writesStore(request []byte) bool {
	var m abi.StoreRequest
	return wire.UnmarshalWithin(request, &m, wire.MaxRequestOverhead) != nil || m.Write != nil
}

// exact returns the next answer to an identical request, and repeats the last one: only
// reads are matched this way.
func (p *player) exact(name string, request []byte) (abi.Code, []byte, bool) {
	key := callKey{name, string(request)}
	found := p.recorded[key]
	if len(found) == 0 {
		return 0, nil, false
	}
	if len(found) > 1 {
		p.recorded[key] = found[1:]
	}
	return found[0].code, []byte(found[0].result), true
}

// cache keeps the op's writes private.
func (p *player) cache(ask live, request []byte) (abi.Code, []byte) {
	var m abi.CacheRequest
	if err := wire.UnmarshalWithin(request, &m, wire.MaxRequestOverhead); err != nil {
		return ask(abi.CapabilityCache, request) // with an error that says why
	}
	if m.Put != nil {
		p.put(m.Key, m.Put.Value)
		return abi.CodeOK, nil
	}
	if value, ok := p.scratch[m.Key]; ok {
		return encode(&abi.CacheResponse{Found: true, Value: value})
	}
	if code, result, ok := p.exact(abi.CapabilityCache, request); ok {
		return code, result
	}
	return ask(abi.CapabilityCache, request) // not p.left: a cache may forget
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

// encode encodes the answer to a host call.
func encode(m abi.Message) (abi.Code, []byte) {
	if m.SizeVT() > abi.MaxHostResultBytes {
		return abi.CodeTooLarge, nil
	}
	data, err := wire.Marshal(m)
	if err != nil {
		return abi.CodeInternal, nil
	}
	return abi.CodeOK, data
}
