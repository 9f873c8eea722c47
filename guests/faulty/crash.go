package main

import "github.com/wasm-ccm/wasm-ccm/guests/sdk"

// pool could be code of a provider's author: nothing in it makes the mistakes
// easier to find than usual.
type pool struct {
	owners    map[string]string
	addresses []string
	pages     [][]byte
}

// crash makes one of the mistakes that end a guest.
func (p *provider) crash(how, uid string) error {
	switch how {
	case "nil-map":
		p.pool.own(uid)
	case "index":
		p.pool.address(uid)
	case "memory":
		p.pool.hoard(uid)
	case "stack":
		p.sum += p.pool.depth(uid, 1)
	default:
		return sdk.Invalidf("there is no crash %q", how)
	}
	return nil
}

// own forgets to make the map.
func (p *pool) own(uid string) { p.owners["first"] = uid }

// address takes one more than exists.
func (p *pool) address(uid string) { p.addresses[len(p.addresses)] = uid }

// hoard keeps everything.
func (p *pool) hoard(uid string) {
	for {
		page := make([]byte, 1<<20)
		copy(page, uid)
		p.pages = append(p.pages, page)
	}
}

// depth recurses for ever.
func (p *pool) depth(uid string, n uint32) uint32 {
	var room [64]uint32
	for i := range room {
		room[i] = n * uint32(i+len(uid))
	}
	below := p.depth(uid, n+room[n*7%64]) //nolint:staticcheck // it is the mistake
	return room[below%64] + below
}
