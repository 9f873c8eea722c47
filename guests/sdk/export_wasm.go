package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// module is this instance: WebAssembly exports are functions without a
// receiver, so their state has to be global. The request buffer is reused from
// op to op.
var module struct {
	call    func(number abi.Op, request []byte) (abi.Code, []byte)
	request []byte
	resumed []func()
}

// Serve registers p as this module's provider. Call it once, from an init
// function of the main package.
func Serve(p Provider) {
	serveRandom()
	server, op := NewServer(p), &Op{}
	module.call = func(number abi.Op, request []byte) (abi.Code, []byte) { return server.Call(op, number, request) }
}

// ServeSigner is Serve for a signer. The module then contains nothing that only
// providers need.
func ServeSigner(s Signer) {
	serveRandom()
	module.call = NewSignerServer(s).Call
}

// OnResume registers f to run in each instance that begins as a copy of a
// configured one, before its first op. Use it to renew state that instances
// must not share: a seed, a name of the instance, a start time. Call it from an
// init function or in Configure. F may only use the log, the clock and random
// numbers of the host. crypto/rand needs no OnResume.
func OnResume(f func()) { module.resumed = append(module.resumed, f) }

//go:wasmexport ccm_abi_v1
func marker() {}

//go:wasmexport ccm_call
func ccmCall(op, requestLength uint32) uint32 {
	if module.call == nil {
		panic("nothing to serve: call sdk.Serve or sdk.ServeSigner in an init function of the main package")
	}
	m := &module
	m.request = sized(m.request, requestLength)
	for read := uint32(0); read < requestLength; {
		n := importReqRead(read, pointer(m.request[read:]), requestLength-read)
		if n == 0 {
			panic("the host has less of the request than it said")
		}
		read += n
	}
	code, answer := m.call(abi.Op(op), m.request)
	if code == abi.CodeOK {
		importRespWrite(pointer(answer), uint32(len(answer)))
	} else {
		importErrWrite(pointer(answer), uint32(len(answer)))
	}
	return uint32(code)
}
