package cloudproviders

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxEventBytes is the API server's limit for an Event's message.
const maxEventBytes = 1024

// tell makes an Event of a written status that is news: a failure, or a module
// that serves for good. The intermediate phases are Events on the provider's
// ConfigMap.
func (o *Objects) tell(object *unstructured.Unstructured, before, now v1alpha1.CloudProviderStatus) {
	kind, message := corev1.EventTypeWarning, now.Reason+": "+now.Message
	switch {
	case isFailure(now.Phase):
		if before.Phase == now.Phase && before.Reason == now.Reason && before.Message == now.Message {
			return
		}
	case now.Phase == string(rollout.Kept) && before.Phase != now.Phase && now.Serving != nil:
		kind, message = corev1.EventTypeNormal, servingMessage(now.Serving)
	default:
		return
	}
	about := &corev1.ObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.CloudProviderKind, Name: object.GetName(), UID: object.GetUID()}
	o.options.Events.Event(about, kind, report.OfPhase(now.Phase), text.Line(message, maxEventBytes))
}
