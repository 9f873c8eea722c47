package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventRemoved is the reason of the Event on the status of a provider that is
// no longer configured.
const eventRemoved = report.ProviderRemoved

// entitledTimeout bounds one request.
const entitledTimeout = 10 * time.Second

// removalReporter reports providers that are no longer configured: otherwise their
// status would show for ever that they serve.
type removalReporter struct {
	kube
	namespace string
}

// tell reads the earlier configured providers from the statuses, and those that
// this manager may write. It returns before they are overwritten, even when the
// API server does not answer.
func (r *removalReporter) tell(ctx context.Context, now []*managed, configured func(name string) bool) {
	// With flags alone the provider has a fixed name.
	before := append(r.entitled(ctx), config.FlagProvider)
	for _, one := range now {
		names, err := one.status.Providers(ctx)
		if err != nil {
			one.logger.Error(err, "Cannot read which providers were configured before")
			continue
		}
		before = append(before, names...)
	}
	slices.Sort(before)
	for _, name := range slices.Compact(before) {
		if !configured(name) {
			_ = r.tellOf(ctx, name)
		}
	}
}

// entitled returns the providers whose status this manager may write by name.
// The last removed one is in no other status, and no manager may list the
// ConfigMaps of a namespace.
func (r *removalReporter) entitled(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, entitledTimeout)
	defer cancel()
	own := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: r.namespace}}
	review, err := r.client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, own, metav1.CreateOptions{})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read which provider statuses this manager may write")
		return nil
	}
	for _, rule := range review.Status.ResourceRules {
		if !slices.Contains(rule.Resources, "configmaps") || !slices.Contains(rule.Verbs, "patch") {
			continue
		}
		for _, object := range rule.ResourceNames {
			if name, ok := strings.CutPrefix(object, status.Name("")); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// tellOf returns an error, which it has logged, if another attempt may help.
func (r *removalReporter) tellOf(ctx context.Context, name string) error {
	logger := klog.FromContext(ctx).WithValues("provider", name)
	message := fmt.Sprintf("Provider %s is no longer configured. Its objects are left alone, and the deletion of a Service with "+
		"its load balancer waits (Event NoProvider). Configure it again; or, when nothing of it is left, delete this ConfigMap and wasm-ccm-module-%s-*", name, name)
	object := status.New(r.client, r.namespace, name, clock.RealClock{})
	gone, err := object.Remove(ctx, message)
	switch {
	case apierrors.IsForbidden(err) && name == config.FlagProvider: // most likely there was none
		logger.V(2).Info("Cannot read whether flags configured a provider before", "err", err)
	case err != nil:
		logger.Error(err, "The status of a provider that is not configured any more is left as it was")
		if !apierrors.IsForbidden(err) {
			return err
		}
	case gone:
		logger.Info("A provider is not configured any more", "message", message)
		reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.namespace, Name: object.Name()}
		r.events.Event(reference, corev1.EventTypeNormal, eventRemoved, text.Line(message, maxEventBytes))
	}
	return nil
}
