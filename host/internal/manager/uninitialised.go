package manager

import (
	"errors"
	"fmt"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventNotInitialised is the reason of the Event on a Node that keeps its taint.
const eventNotInitialised = report.NodeNotInitialized

// newUninitialised returns the function that makes Events on Nodes with the
// reason why they are not initialised.
func newUninitialised(events record.EventRecorder) func(*corev1.Node, error) {
	told := rate.NewLimiter(refusedEvents, refusedEventsBurst)
	return func(node *corev1.Node, err error) {
		var refused *addresses.Error
		if errors.As(err, &refused) || !told.Allow() { // refused addresses have eventMetadataRefused
			return
		}
		events.Event(nodeReference(node), corev1.EventTypeWarning, eventNotInitialised, text.Line(whyNotInitialised(err), maxEventBytes))
	}
}

func whyNotInitialised(err error) string {
	cause := err.Error()
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		cause = "the provider knows no machine for this Node (instance not found): is it in the cloud's account or the inventory, by this name or provider ID?"
	}
	return fmt.Sprintf("The Node keeps the taint %s: %s It is tried again, and at once when the provider or its configuration changes.",
		cloudproviderapi.TaintExternalCloudProvider, asSentence(cause))
}

// asSentence ends a text like a sentence.
func asSentence(text string) string {
	if text == "" || text[len(text)-1] == '.' || text[len(text)-1] == '?' {
		return text
	}
	return text + "."
}
