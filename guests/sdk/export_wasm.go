package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// module is this instance: WebAssembly exports are functions without a
// receiver, so what they serve has to be global. The request buffer is reused
// from op to op.
var module struct {
	server  *Server
	op      Op
	request []byte
}

// Serve makes p what this module serves. Call it once, from an init function
// of the main package.
func Serve(p Provider) { module.server = NewServer(p) }

//go:wasmexport ccm_abi_v1
func marker() {}

//go:wasmexport ccm_call
func ccmCall(op, requestLength uint32) uint32 {
	if module.server == nil {
		panic("no provider: call sdk.Serve in an init function of the main package")
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
	code, answer := m.server.Call(&m.op, abi.Op(op), m.request)
	if code == abi.CodeOK {
		importRespWrite(pointer(answer), uint32(len(answer)))
	} else {
		importErrWrite(pointer(answer), uint32(len(answer)))
	}
	return uint32(code)
}
