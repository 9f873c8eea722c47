package sdk

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Op is the running op, with access to the host. It is valid until the called
// method returns, and is not safe for concurrent use.
type Op struct {
	host Host   // nil in a module, which calls its imports
	buf  []byte // reused for requests and results of host calls
}

// Host replaces the imports of a module in native tests. Package sdktest has
// one.
type Host interface {
	// HostCall calls the import of that name. With a code other than CodeOK the
	// result is an encoded ErrorDetail or empty.
	HostCall(name string, request []byte) (abi.Code, []byte)
	Now() time.Time
	// Left is the time that remains for the op.
	Left() time.Duration
}

// NewOp returns an op that calls a host in place of the module's imports.
func NewOp(host Host) *Op { return &Op{host: host} }

// Now is the time of the host's clock.
func (op *Op) Now() time.Time {
	if op.host != nil {
		return op.host.Now()
	}
	return time.Unix(0, importNow())
}

// Left is the time that remains for the op, never negative. Start longer work
// and answer RetryAfter; do not wait for it.
func (op *Op) Left() time.Duration {
	if op.host != nil {
		return op.host.Left()
	}
	return time.Duration(importDeadline())
}

// Event creates a Kubernetes Event on the object of the op. The reason is
// CamelCase. It needs the capability event.
func (op *Op) Event(warning bool, reason, message string) error {
	req := abi.EventRequest{Warning: warning, Reason: reason, Message: message}
	return op.call(abi.CapabilityEvent, importEvent, &req, nil)
}

// importFunc is an import of the shape (ptr, len) -> status << 32 | length.
type importFunc func(ptr unsafe.Pointer, length uint32) uint64

// call makes a host call. resp is empty, or nil if there is no response
// message. The error is an abi.Error with the host's code.
func (op *Op) call(name string, imported importFunc, req, resp abi.Message) error {
	var err error
	if op.buf, err = encode(op.buf, req); err != nil {
		return Error(abi.CodeInvalid, name+": encoding the request: "+err.Error())
	}
	code, result := op.exchange(name, imported)
	if code != abi.CodeOK {
		return hostError(name, code, result)
	}
	if resp == nil {
		return nil
	}
	if err := resp.UnmarshalVT(result); err != nil {
		return Error(abi.CodeInternal, name+": the host's response does not decode: "+err.Error())
	}
	return nil
}

// exchange sends op.buf and returns the result, which is valid until the next
// host call.
func (op *Op) exchange(name string, imported importFunc) (abi.Code, []byte) {
	if op.host != nil {
		return op.host.HostCall(name, op.buf)
	}
	status := imported(pointer(op.buf), uint32(len(op.buf)))
	length := uint32(status)
	op.buf = sized(op.buf, length)
	for read := uint32(0); read < length; {
		n := importResultRead(read, pointer(op.buf[read:]), length-read)
		if n == 0 {
			return abi.CodeInternal, nil
		}
		read += n
	}
	return abi.Code(status >> 32), op.buf
}

func hostError(name string, code abi.Code, result []byte) error {
	var detail abi.ErrorDetail
	if err := detail.UnmarshalVT(result); err != nil {
		detail.Message = "the host's error does not decode: " + err.Error()
	}
	if detail.Message == "" {
		detail.Message = code.String()
	}
	return fmt.Errorf("%s: %w", name, &abi.Error{
		Code: code, Message: detail.Message, RetryAfter: time.Duration(detail.RetryAfterMs) * time.Millisecond,
	})
}

// encode encodes m into buf, which it grows as needed.
func encode(buf []byte, m abi.Message) ([]byte, error) {
	buf = sized(buf, uint32(m.SizeVT()))
	n, err := m.MarshalToSizedBufferVT(buf)
	return buf[len(buf)-n:], err
}

// sized returns a slice of that length, in buf's memory if it fits.
func sized(buf []byte, length uint32) []byte {
	if uint32(cap(buf)) < length {
		return make([]byte, length, length+length/2)
	}
	return buf[:length]
}

func pointer(buf []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(buf)) }
