package manager

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventRemoved is the reason of the Event on the status of a provider that is
// not configured any more.
const eventRemoved = eventPrefix + status.PhaseRemoved

// providerNames returns the names of the providers.
func providerNames(c *v1alpha1.HostConfiguration) (names []string) {
	for i := range c.Providers {
		names = append(names, c.Providers[i].Name)
	}
	return names
}

// removed tells of the providers that were configured before and are not any
// more: else their status says for ever that they serve.
type removed struct {
	kube
	namespace string
}

// tell looks at what the statuses of the providers say was configured. It
// returns before anything of that is overwritten, and when the API server does
// not answer.
func (r *removed) tell(ctx context.Context, now []*managed) {
	// Where flags say it all, the provider has a name of its own.
	before := []string{config.FlagProvider}
	for _, one := range now {
		names, err := one.status.Providers(ctx)
		if err != nil {
			one.logger.Error(err, "It is not known which providers were configured before")
			continue
		}
		before = append(before, names...)
	}
	for _, one := range now {
		before = slices.DeleteFunc(before, func(name string) bool { return name == one.name })
	}
	slices.Sort(before)
	for _, name := range slices.Compact(before) {
		r.tellOf(ctx, name)
	}
}

func (r *removed) tellOf(ctx context.Context, name string) {
	logger := klog.FromContext(ctx).WithValues("provider", name)
	message := fmt.Sprintf("The manager's configuration has no provider %s any more. What was its own is left alone: a Service that has a load balancer of it "+
		"waits for it when it is deleted (Event NoProvider). Configure it again; or, when nothing of it is left, delete this ConfigMap and wasm-ccm-module-%s-*", name, name)
	object := status.New(r.client, r.namespace, name, clock.RealClock{})
	gone, err := object.Remove(ctx, message)
	switch {
	case apierrors.IsForbidden(err) && name == config.FlagProvider: // there was none, most likely
		logger.V(2).Info("Whether there was a provider of the flags is not known", "err", err)
	case err != nil:
		logger.Error(err, "The status of a provider that is not configured any more is left as it was")
	case gone:
		logger.Info("A provider is not configured any more", "message", message)
		reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.namespace, Name: object.Name()}
		r.events.Event(reference, corev1.EventTypeWarning, eventRemoved, text.Line(message, maxEventBytes))
	}
}
