// Package abi is the contract between the cloud-controller-manager (the host)
// and a cloud provider compiled to WebAssembly (the guest): the messages (from
// ccm_v1.proto), the names of imports and exports, the numbers of ops and
// codes, and the limits. SPEC.md is its specification.
//
// It compiles with TinyGo and with stock Go. Its only dependency is the runtime
// of the generated codec.
package abi

//go:generate protoc --go-lite_out=. --go-lite_opt=paths=source_relative,features=marshal+unmarshal+size ccm_v1.proto
//go:generate sed -i -E "/^func .* (Marshal(To)?VT|ProtoMessage|Get[A-Za-z]+|Reset|Enum)[(]/,/^$/d; /^type .*_.*Entry struct/,/^$/d; /^\t.*_value = /,/^\t}/d" ccm_v1.pb.go

// Version is the number of this ABI.
const Version = 1

// Exports that a guest must have.
const (
	ExportMemory     = "memory"
	ExportInitialize = "_initialize"
	// ExportMarker is a function without parameters and results. It is never
	// called: its presence says which ABI the guest speaks.
	ExportMarker = "ccm_abi_v1"
	// ExportCall is the function (op i32, request_len i32) -> (code i32).
	ExportCall = "ccm_call"
)

// ExportResume is a function without parameters and results that a guest may
// export. By it a guest allows the host to let an instance begin as a copy of
// another one that was initialised and configured. The host calls it first in
// each such instance.
const ExportResume = "ccm_resume"

// ImportModule is the module name of every host import of this ABI.
const ImportModule = "ccm_v1"

// ManifestSection is the name of the custom section that holds the manifest.
const ManifestSection = "ccm.manifest"

// Imports that every guest may use.
const (
	// ImportReqRead is (off i32, ptr i32, cap i32) -> (copied i32).
	ImportReqRead = "req_read"
	// ImportRespWrite is (ptr i32, len i32).
	ImportRespWrite = "resp_write"
	// ImportErrWrite is (ptr i32, len i32).
	ImportErrWrite = "err_write"
	// ImportResultRead is (off i32, ptr i32, cap i32) -> (copied i32).
	ImportResultRead = "result_read"
	// ImportNow is () -> (unix time in ns, i64).
	ImportNow = "now"
	// ImportDeadline is () -> (ns that are left for the op, i64; never negative).
	ImportDeadline = "deadline"
	// ImportLog takes a LogRequest and has no result message.
	ImportLog = "log"
)

// Capabilities: imports that a guest may use only when its manifest asks for
// them and the administrator grants them. Each is (ptr i32, len i32) -> i64,
// status << 32 | length of the result.
const (
	CapabilityHTTP  = "http_send"
	CapabilityStore = "store"
	CapabilityCache = "cache"
	CapabilityNodes = "nodes"
	CapabilityEvent = "event"
	CapabilityKube  = "kube"
)

// Capabilities returns the names of all capabilities.
func Capabilities() []string {
	return []string{CapabilityHTTP, CapabilityStore, CapabilityCache, CapabilityNodes, CapabilityEvent, CapabilityKube}
}

// Limits of ABI v1, in bytes where nothing else is said. A host may set lower
// ones for a guest, never higher ones.
const (
	MaxRequestBytes      = 8 << 20
	MaxResponseBytes     = 8 << 20
	MaxErrorMessageBytes = 4096
	MaxHostCallBytes     = 8 << 20
	MaxHostResultBytes   = 16 << 20
	MaxLogMessageBytes   = 8 << 10
	MaxManifestBytes     = 64 << 10
	MaxHTTPBatch         = 64 // requests
	MaxNodesPage         = 1000
	MaxKubePage          = 1000 // objects, those that are gone included
)

// The shortest and the longest period of the op tick, in milliseconds.
const (
	LeastTickPeriodMs = 10_000
	MostTickPeriodMs  = 3_600_000
)

// Limits of the requests of single host calls, below MaxHostCallBytes: more
// than they can have a use for. MaxRequestOf says which is whose.
const (
	MaxLogRequestBytes   = 64 << 10
	MaxEventRequestBytes = 16 << 10
	MaxNodesRequestBytes = 4 << 10
	MaxCacheRequestBytes = 1<<20 + 4<<10
	MaxStoreRequestBytes = 2 << 20
	MaxKubeRequestBytes  = 64 << 10
)

// MaxRequestOf returns the most bytes that a request of the host call may
// have.
func MaxRequestOf(name string) int {
	switch name {
	case ImportLog:
		return MaxLogRequestBytes
	case CapabilityEvent:
		return MaxEventRequestBytes
	case CapabilityNodes:
		return MaxNodesRequestBytes
	case CapabilityCache:
		return MaxCacheRequestBytes
	case CapabilityStore:
		return MaxStoreRequestBytes
	case CapabilityKube:
		return MaxKubeRequestBytes
	}
	return MaxHostCallBytes
}

// Message is what every message of this package implements.
type Message interface {
	SizeVT() int
	MarshalToSizedBufferVT(data []byte) (int, error)
	UnmarshalVT(data []byte) error
}
