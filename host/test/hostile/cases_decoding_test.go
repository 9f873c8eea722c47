package hostile_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// 15: what they hand over is small to send and large to read. Each is run by
// as many instances as there can be.
func decodingCases() []hostileCase {
	return slices.Concat(requestCases(), resultCases(), responseCases())
}

// repeated is a message: a beginning, and then one part again and again.
type repeated struct {
	prefix, unit string
	size         int
}

// lengthPrefixed is a field around as many whole units as fit into a message
// of that size.
func lengthPrefixed(tag byte, unit string, size int) repeated {
	const most = 5 // bytes of the tag and the length
	body := (size - most) / len(unit) * len(unit)
	head := binary.AppendUvarint([]byte{tag}, uint64(body))
	return repeated{string(head), unit, len(head) + body}
}

// requestCases hand over requests of host calls.
func requestCases() []hostileCase {
	most := abi.MaxHostCallBytes
	// An HttpSendRequest with one request, which holds the units.
	http := func(unit string) repeated { return lengthPrefixed(1<<3|2, unit, most) }
	call := func(name, capability, tries string, message repeated) hostileCase {
		return everywhere("decode_"+name, tries, deadline, func(b *built) { b.calls(capability, message) })
	}
	return []hostileCase{
		call("nodes_packed", abi.CapabilityNodes, "Eight million fields in one list, a byte each.", lengthPrefixed(4<<3|2, "\x01", most)),
		call("nodes_unpacked", abi.CapabilityNodes, "Four million fields, two bytes each.", repeated{"", "\x20\x01", most}),
		call("http_requests", abi.CapabilityHTTP, "Four million requests, two bytes each.", repeated{"", "\x0a\x00", most}),
		call("http_requests_text", abi.CapabilityHTTP, "A million requests that have a name of three bytes.", repeated{"", "\x0a\x05\x12\x03\xe2\x82\xac", most}),
		call("http_headers", abi.CapabilityHTTP, "One request with four million headers.", http("\x1a\x00")),
		call("http_header_names", abi.CapabilityHTTP, "One request with a million headers that have a name.", http("\x1a\x03\x0a\x01x")),
		call("http_again", abi.CapabilityHTTP, "One request whose URL is set a million times.", http("\x12\x05https")),
		call("http_unknown", abi.CapabilityHTTP, "One request with four million unknown fields.", http("\x78\x01")),
		call("http_groups", abi.CapabilityHTTP, "Groups that nest four million deep.", repeated{"", "\x0b", most}),
		// In the memory of eight, and once more each in what was copied and what was decoded.
		mayGrow(240, call("http_body", abi.CapabilityHTTP, "A proper request with a body of 8 MiB.",
			repeated{string(slices.Concat([]byte("\x0a"), binary.AppendUvarint(nil, uint64(most-5)), []byte("\x0a\x03PUT\x12\x0fhttps://x.test/"), []byte("\x22"), binary.AppendUvarint(nil, uint64(most-32)))), "b", most})),
		call("store_put", abi.CapabilityStore, "A write of four million entries.", lengthPrefixed(1<<3|2, "\x12\x00", most)),
		call("store_delete", abi.CapabilityStore, "A write that deletes four million keys.", lengthPrefixed(1<<3|2, "\x1a\x00", most)),
		call("store_prefix", abi.CapabilityStore, "A prefix of 8 MiB, which is not ASCII.", lengthPrefixed(2<<3|2, "\xc3\xbc", most)),
		call("cache_key", abi.CapabilityCache, "A key of 8 MiB.", lengthPrefixed(1<<3|2, "k", most)),
		call("cache_puts", abi.CapabilityCache, "A value that is set four million times.", repeated{"", "\x12\x00", most}),
		call("kube_patch", abi.CapabilityKube, "A patch that removes thirty thousand keys.", lengthPrefixed(6<<3|2, "\x1a\x00", abi.MaxKubeRequestBytes)),
		call("kube_cursor", abi.CapabilityKube, "A question about Nodes with a cursor of 64 KiB.", repeated{"\x0a\x05nodes\x22\xf0\xff\x03", "c", abi.MaxKubeRequestBytes - 5}),
		call("kube_everything", abi.CapabilityKube, "All Nodes from the beginning, again and again.", repeated{"\x0a\x05nodes", "\x28\x7f", 27}),
		call("event_text", abi.CapabilityEvent, "An Event of 8 MiB that is not ASCII.", lengthPrefixed(3<<3|2, "\xe2\x82\xac", most-1)),
		call("event_again", abi.CapabilityEvent, "An Event whose message is set four million times.", repeated{"", "\x1a\x01m", most}),
		call("log_values", abi.ImportLog, "A line with 10,000 fields.", repeated{"\x12\x01m", "\x1a\x04\x0a\x02kk", 60_000}),
		call("log_text", abi.ImportLog, "A line of 64 KiB that is not ASCII and not printable.", lengthPrefixed(2<<3|2, "\xe2\x80\xae", 64<<10-1)),
	}
}

// resultCases make the host hold much for them.
func resultCases() []hostileCase {
	const quite = "\x0a\x1b\x0a\x03GET\x12\x14https://x.test/quite"
	const batch = "\x0a\x1b\x0a\x03GET\x12\x14https://x.test/large"
	return []hostileCase{
		everywhere("result_held", "Asks for 64 answers of the cloud at once, and keeps the result until the deadline.", deadline, func(b *built) {
			b.attack(abi.CapabilityHTTP, repeated{"", batch, 64 * len(batch)}, call1(64*len(batch)), spin())
		}),
		everywhere("result_many", "Asks for 64 answers of the cloud at once, again and again.", deadline, func(b *built) {
			b.calls(abi.CapabilityHTTP, repeated{"", quite, 64 * len(quite)})
		}),
	}
}

// responseCases hand over answers of ops.
func responseCases() []hostileCase {
	most := abi.MaxResponseBytes
	answer := func(name, tries, want string, op abi.Op, message repeated) hostileCase {
		c := everywhere("decode_"+name, tries, want, func(b *built) { b.answers(message) })
		// Each of the eight has 8 MiB in its memory and in its answer, and some
		// have as much decoded; garbage of the answers before comes on top.
		c.ops, c.growth = []abi.Op{op}, 240
		return c
	}
	fail := func(name, tries string, message repeated) hostileCase {
		c := everywhere("decode_"+name, tries, "cannot be decoded", func(b *built) { b.fails(message) })
		c.anyError = true
		return c
	}
	const large = "cannot be decoded"
	return []hostileCase{
		answer("routes", "Four million routes, two bytes each.", large, abi.OpRouteList, repeated{"", "\x0a\x00", most}),
		answer("route_addresses", "One route with four million addresses.", large, abi.OpRouteList, lengthPrefixed(1<<3|2, "\x1a\x00", most)),
		answer("labels", "Four million labels that are all the same.", large, abi.OpVolumeLabels, repeated{"", "\x0a\x00", most}),
		answer("labels_text", "A million labels that are not ASCII.", large, abi.OpVolumeLabels, repeated{"", "\x0a\x04\x0a\x02\xc3\xbc", most}),
		answer("ingress_ports", "An ingress with four million ports.", large, abi.OpLoadBalancerGet, repeated{"\x08\x01\x12\xf9\xff\xff\x03\x0a\xf4\xff\xff\x03", "\x22\x00", most}),
		answer("metadata_again", "Metadata that are set four million times.", large, abi.OpInstanceMetadata, repeated{"", "\x0a\x00", most}),
		answer("unknown_fields", "Four million unknown fields.", large, abi.OpInstanceExists, repeated{"", "\x78\x01", most}),
		answer("groups", "Groups that nest eight million deep.", large, abi.OpInstanceExists, repeated{"", "\x7b", most}),
		fail("error_fields", "An error with 4,000 unknown fields, and half of one.", repeated{"", "\x78\x01", 2*abi.MaxErrorMessageBytes - 1}),
		fail("error_again", "An error whose message is set 2,700 times, and not wholly the last.", repeated{"", "\x0a\x01e", 2 * abi.MaxErrorMessageBytes}),
	}
}

// everywhere runs a built module in every instance at the same time.
func everywhere(name, tries, want string, change func(*built)) hostileCase {
	c := builtCase(name, tries, phaseOp, want, change)
	c.parallel = instanceLimit
	return c
}

// Where the message is built. It is grown into.
const (
	seedAt    = 64
	messageAt = 1024
)

// calls makes every op call an import with the message until it is ended.
func (b *built) calls(name string, message repeated) {
	loop := slices.Concat([]byte{0x03, 0x40}, call1(message.size), []byte{0x0c, 0, 0x0b, 0x00}) // loop, call, br 0, end, unreachable
	b.attack(name, message, loop)
}

// answers makes every op answer with the message, and fails makes it an error.
func (b *built) answers(message repeated) {
	b.attack("", message, slices.Concat(constant(messageAt), constant(message.size), []byte{0x10, 0}, constant(0)))
}

func (b *built) fails(message repeated) {
	b.imports = append(b.imports, slices.Concat(name("ccm_v1"), name(abi.ImportErrWrite), []byte{0, typeWrite}))
	b.attack("", message, slices.Concat(constant(messageAt), constant(message.size), []byte{0x10, 1}, constant(int(abi.CodeInvalid))))
}

// attack builds the message in every op but the first three, and runs code
// then. The import, if one is named, is function 1.
func (b *built) attack(imported string, message repeated, code ...[]byte) {
	if imported != "" {
		b.types = append(b.types, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7e})
		b.imports = append(b.imports, slices.Concat(name("ccm_v1"), name(imported), []byte{0, byte(len(b.types) - 1)}))
	}
	b.datas = append(b.datas, slices.Concat([]byte{0}, constant(seedAt), []byte{0x0b}, name(message.prefix+message.unit)))
	body := slices.Concat(vector(nil), []byte{
		0x20, 0, 0x41, 1, 0x46, 0x04, 0x40, // local.get 0, i32.const 1, i32.eq, if
		0x41, 0, 0x41, 15, 0x10, 0, 0x41, 0, 0x0f, 0x0b, // resp_write(0, 15), return 0, end
		0x20, 0, 0x41, 3, 0x4d, 0x04, 0x40, // local.get 0, i32.const 3, i32.le_u, if
		0x41, 15, 0x41, 2, 0x10, 0, 0x41, 0, 0x0f, 0x0b, // resp_write(15, 2), return 0, end
	}, message.build(), slices.Concat(code...), []byte{0x0b})
	b.bodies[2] = append(wasmbin.AppendU32(nil, uint32(len(body))), body...)
}

// build makes the message of its first unit, by copies that double.
func (m repeated) build() []byte {
	const pageBytes = 64 << 10
	start, end := messageAt+len(m.prefix), messageAt+m.size
	code := slices.Concat(constant(end/pageBytes+1), []byte{0x40, 0, 0x1a}, // memory.grow, drop
		memoryCopy(messageAt, seedAt, len(m.prefix)+len(m.unit)))
	for have := len(m.unit); start+have < end; have *= 2 {
		code = append(code, memoryCopy(start+have, start, min(have, end-start-have))...)
	}
	return code
}

func memoryCopy(to, from, size int) []byte {
	return slices.Concat(constant(to), constant(from), constant(size), []byte{0xfc, 10, 0, 0})
}

// constant is i32.const of a number that is not negative.
func constant(n int) []byte {
	out := []byte{0x41}
	for ; n >= 0x40; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// call1 calls function 1 with the message, whose result is of no interest.
func call1(size int) []byte {
	return slices.Concat(constant(messageAt), constant(size), []byte{0x10, 1, 0x1a})
}

func spin() []byte { return []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} }

// The messages are what the cases say.
func TestDecodingCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range decodingCases() {
		if !strings.HasPrefix(c.name, "decode_") && !strings.HasPrefix(c.name, "result_") || seen[c.name] {
			t.Errorf("the name %q", c.name)
		}
		seen[c.name] = true
		if wasm := c.wasm(t); len(wasm) > 16<<10 {
			t.Errorf("%s has %d bytes", c.name, len(wasm))
		}
	}
}
