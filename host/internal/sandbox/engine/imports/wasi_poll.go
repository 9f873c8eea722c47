package imports

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// pollOneoff is poll_oneoff(in, out, count, events) -> errno. It sleeps until the first
// clock is due, at most until the op's deadline. There are no files to wait for.
func pollOneoff(ctx context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	in, out, count, events := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if count == 0 || count > maxSubscriptions {
		return errnoInval, nil
	}
	view, ok := memory.Read(in, subscriptionBytes*count)
	if !ok {
		return errnoFault, nil
	}
	due, errno := firstDue(view)
	if errno != errnoSuccess {
		return errno, nil
	}
	// Invariant M23 (host/SECURITY.md): it waits with the op's context.
	if err := sleep(ctx, due.after); err != nil {
		return errnoSuccess, err
	}
	const eventBytes = 32
	event := append(append(make([]byte, 0, eventBytes), due.userdata...), make([]byte, eventBytes-8)...)
	if !write(memory, out, event) || !writeU32(memory, events, 1) {
		return errnoFault, nil
	}
	return errnoSuccess, nil
}

// A subscription: userdata u64, tag u8, and for the tag of clocks, from byte
// 16 on: clock u32, timeout u64 at 24, precision u64, flags u16 at 40.
const (
	subscriptionBytes = 48
	tagClock          = 0
	flagAbsolute      = 1
)

type clockEvent struct {
	after    time.Duration
	userdata []byte
}

// firstDue returns the clock that is due first.
func firstDue(subscriptions []byte) (first clockEvent, errno uint64) {
	first.after = -1
	for s := subscriptions; len(s) > 0; s = s[subscriptionBytes:] {
		if s[8] != tagClock {
			return first, errnoBadf
		}
		flags, timeout := binary.LittleEndian.Uint16(s[40:]), binary.LittleEndian.Uint64(s[24:])
		if flags&flagAbsolute != 0 {
			// An absolute time: only the real-time clock is supported.
			if binary.LittleEndian.Uint32(s[16:]) != clockRealtime {
				return first, errnoInval
			}
			timeout = uint64(max(0, int64(min(timeout, math.MaxInt64))-time.Now().UnixNano()))
		}
		after := time.Duration(min(timeout, math.MaxInt64))
		if first.after < 0 || after < first.after {
			first = clockEvent{after, append([]byte(nil), s[:8]...)}
		}
	}
	return first, errnoSuccess
}

// sleep ends the guest after its deadline.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return outOfTime(fmt.Errorf("while asleep: %w", ctx.Err()))
	}
}
