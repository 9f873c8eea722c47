package imports

import (
	"context"
	"encoding/binary"
)

// fdWrite is fd_write(fd, iovecs, count, written) -> errno. It may write less than
// requested, as WASI allows.
func fdWrite(_ context.Context, c *Call, memory Memory, stack []uint64) (uint64, error) {
	w := c.guest.config.Stdout
	switch uint32(stack[0]) {
	case 1:
	case 2:
		w = c.guest.config.Stderr
	default:
		return errnoBadf, nil
	}
	data, errno := gather(memory, uint32(stack[1]), uint32(stack[2]))
	if errno != errnoSuccess {
		return errno, nil
	}
	if w != nil {
		c.hear(data)
		if _, err := w.Write(data); err != nil {
			return errnoIO, nil
		}
	}
	if !writeU32(memory, uint32(stack[3]), uint32(len(data))) {
		return errnoFault, nil
	}
	return errnoSuccess, nil
}

// gather copies the bytes of the iovecs, within the bounds of one call.
func gather(memory Memory, iovecs, count uint32) (data []byte, errno uint64) {
	if count > maxIovecs {
		return nil, errnoInval
	}
	list, ok := memory.Read(iovecs, 8*count)
	if !ok {
		return nil, errnoFault
	}
	for ; len(list) > 0 && len(data) < maxWriteBytes; list = list[8:] {
		part, ok := memory.Read(binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:]))
		if !ok {
			return nil, errnoFault
		}
		data = append(data, part[:min(len(part), maxWriteBytes-len(data))]...)
	}
	return data, errnoSuccess
}

// fdStatGet is fd_fdstat_get(fd, result) -> errno: descriptors 0 to 2 are character devices
// without rights, as C libraries expect for line buffering.
func fdStatGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	if uint32(stack[0]) > 2 {
		return errnoBadf, nil
	}
	const characterDevice = 2
	if !write(memory, uint32(stack[1]), append([]byte{characterDevice}, make([]byte, 23)...)) {
		return errnoFault, nil
	}
	return errnoSuccess, nil
}
