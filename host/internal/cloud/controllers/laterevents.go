package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// quietEvents is the sink of a loop's Events: EventSinkImpl calls these two.
type quietEvents struct {
	typedcorev1.EventInterface
	later *later
}

// CreateWithEventNamespace implements typedcorev1.EventExpansion.
func (e quietEvents) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	how, text := e.later.tone(event)
	switch how {
	case quiet:
		return event, nil
	case progress:
		event = event.DeepCopy()
		event.Type, event.Reason, event.Message = corev1.EventTypeNormal, InProgress, text
	}
	return e.CreateWithEventNamespaceWithContext(context.Background(), event)
}

// PatchWithEventNamespace implements typedcorev1.EventExpansion.
func (e quietEvents) PatchWithEventNamespace(event *corev1.Event, data []byte) (*corev1.Event, error) {
	how, text := e.later.tone(event)
	fields := map[string]any{"type": event.Type, "reason": event.Reason}
	switch how {
	case quiet:
		return event, nil
	case progress:
		fields = map[string]any{"type": corev1.EventTypeNormal, "reason": InProgress, "message": text}
	}
	data, err := withFields(data, fields)
	if err != nil {
		return nil, err
	}
	return e.PatchWithEventNamespaceWithContext(context.Background(), event, data)
}

// withFields returns a merge patch with these fields added: an Event of progress may become a Warning
// later.
func withFields(data []byte, fields map[string]any) ([]byte, error) {
	patch := map[string]any{}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("patch of an Event: %w", err)
	}
	for name, value := range fields {
		patch[name] = value
	}
	return json.Marshal(patch)
}
