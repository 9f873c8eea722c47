//go:build !wasm

package sdk

import "unsafe"

// Outside of WebAssembly the only host is the argument of NewOp. A call to
// these functions is a mistake in the test: they say so, and end it.

const noHost = "sdk: outside of WebAssembly an Op needs a host: use sdktest.New(t).Op()"

func importResultRead(uint32, unsafe.Pointer, uint32) uint32 { panic(noHost) }
func importNow() int64                                       { panic(noHost) }
func importDeadline() int64                                  { panic(noHost) }
func importLog(unsafe.Pointer, uint32) uint64                { panic(noHost) }
func importHTTPSend(unsafe.Pointer, uint32) uint64           { panic(noHost) }
func importStore(unsafe.Pointer, uint32) uint64              { panic(noHost) }
func importCache(unsafe.Pointer, uint32) uint64              { panic(noHost) }
func importNodes(unsafe.Pointer, uint32) uint64              { panic(noHost) }
func importEvent(unsafe.Pointer, uint32) uint64              { panic(noHost) }
func importKube(unsafe.Pointer, uint32) uint64               { panic(noHost) }
