package manager

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventDelayed is the reason of the Event on a Service that a provider puts off for
// too long.
const eventDelayed = "ProviderDelayed"

// newDelayed returns what warns of it.
func newDelayed(events record.EventRecorder) func(*corev1.Service, time.Duration, error) {
	return func(service *corev1.Service, took time.Duration, err error) {
		message := fmt.Sprintf("The provider has not finished for %v, and goes on; it said last: %v", took.Round(time.Second), err)
		events.Event(service, corev1.EventTypeWarning, eventDelayed, text.Line(message, maxEventBytes))
	}
}
