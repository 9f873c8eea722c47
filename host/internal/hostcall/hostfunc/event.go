package hostfunc

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of an Event, which are those of the API server.
const (
	maxEventReason  = 128
	maxEventMessage = 1024
)

// event makes an Event on the op's object, and on no other.
func (h *Host) event(ctx context.Context, request []byte) error {
	if h.options.Events == nil {
		return h.denied()
	}
	var m abi.EventRequest
	if err := decode(ctx, request, &m); err != nil {
		return err
	}
	if !isReason(m.Reason) {
		return invalid("reason %s must be CamelCase, at most %d bytes", text.Quote(m.Reason), maxEventReason)
	}
	// Invariant S4 (host/SECURITY.md): the answer does not depend on a secret. It measures the
	// guest's own text: a longer scrubbed one would confirm a guess of a secret.
	if size := len(text.Escape(m.Message)); size == 0 || size > maxEventMessage {
		return invalid("the message has %d bytes, must have from 1 to %d", size, maxEventMessage)
	}
	// Invariant G8 (host/SECURITY.md): the object is the op's; a request cannot name another.
	object := opcontext.FromContext(ctx).Object
	if object == nil {
		return &abi.Error{Code: abi.CodeNotFound, Message: "this op is about no object that an Event could be on: use log"}
	}
	if dropped(ctx) {
		return nil
	}
	// Invariant M8 (host/SECURITY.md): Events take from a rate that outlives generations.
	if !h.rates.events.Allow() {
		h.options.Dropped(DroppedEvent)
		return &abi.Error{Code: abi.CodeThrottled, Message: "too many Events", RetryAfter: time.Second}
	}
	kind := corev1.EventTypeNormal
	if m.Warning {
		kind = corev1.EventTypeWarning
	}
	message := text.Cut(text.Escape(h.options.Scrub(m.Message)), maxEventMessage)
	h.options.Events.Event(object.DeepCopy(), kind, m.Reason, message)
	return nil
}

func isReason(s string) bool {
	if s == "" || len(s) > maxEventReason || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
}
