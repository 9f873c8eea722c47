package sdk

import "unsafe"

// The imports of ABI v1. The linker drops unused imports from a guest's module.
// TinyGo cannot use an import as a value, so imports of the shape importFunc
// have a wrapper function.

//go:wasmimport ccm_v1 req_read
func importReqRead(off uint32, ptr unsafe.Pointer, capacity uint32) uint32

//go:wasmimport ccm_v1 resp_write
func importRespWrite(ptr unsafe.Pointer, length uint32)

//go:wasmimport ccm_v1 err_write
func importErrWrite(ptr unsafe.Pointer, length uint32)

//go:wasmimport ccm_v1 result_read
func importResultRead(off uint32, ptr unsafe.Pointer, capacity uint32) uint32

//go:wasmimport ccm_v1 now
func importNow() int64

//go:wasmimport ccm_v1 deadline
func importDeadline() int64

//go:wasmimport ccm_v1 log
func wasmLog(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 http_send
func wasmHTTPSend(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 store
func wasmStore(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 cache
func wasmCache(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 nodes
func wasmNodes(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 event
func wasmEvent(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport ccm_v1 kube
func wasmKube(ptr unsafe.Pointer, length uint32) uint64

func importLog(ptr unsafe.Pointer, length uint32) uint64      { return wasmLog(ptr, length) }
func importHTTPSend(ptr unsafe.Pointer, length uint32) uint64 { return wasmHTTPSend(ptr, length) }
func importStore(ptr unsafe.Pointer, length uint32) uint64    { return wasmStore(ptr, length) }
func importCache(ptr unsafe.Pointer, length uint32) uint64    { return wasmCache(ptr, length) }
func importNodes(ptr unsafe.Pointer, length uint32) uint64    { return wasmNodes(ptr, length) }
func importEvent(ptr unsafe.Pointer, length uint32) uint64    { return wasmEvent(ptr, length) }
func importKube(ptr unsafe.Pointer, length uint32) uint64     { return wasmKube(ptr, length) }
