package manager

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventDelayed is the reason of the Event on a Service that a provider
// postpones for too long.
const eventDelayed = report.ProviderDelayed

// newDelayed returns the function that makes these Events.
func newDelayed(events record.EventRecorder) func(*corev1.Service, time.Duration, error) {
	return func(service *corev1.Service, took time.Duration, err error) {
		message := fmt.Sprintf("The provider has not finished after %v, and continues", took.Round(time.Second))
		if err != nil {
			message += fmt.Sprintf("; it said last: %v", err)
		}
		kind, reason := corev1.EventTypeNormal, controllers.InProgress
		if took >= report.DelayedAfter {
			kind, reason = corev1.EventTypeWarning, eventDelayed
		}
		events.Event(service, kind, reason, text.Line(message, maxEventBytes))
	}
}
