package check

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// webhook is a validating or a mutating one.
type webhook struct {
	// configuration is the kind and name of its configuration.
	configuration, name string
	policy              *admissionv1.FailurePolicyType
	service             *admissionv1.ServiceReference // nil: it has a URL
	sight
}

// webhooks looks for admission webhooks that stop the manager's writes: now,
// for lack of endpoints, or once that happens.
func (c *checker) webhooks(ctx context.Context) {
	c.section("Webhooks", "cluster", "no admission webhook stops the manager's writes, or can", func() {
		for _, w := range c.allWebhooks(ctx) {
			c.webhook(ctx, &w)
		}
	}, ofValidating, ofMutating)
}

const (
	ofValidating = "validatingwebhookconfigurations"
	ofMutating   = "mutatingwebhookconfigurations"
)

func (c *checker) allWebhooks(ctx context.Context) (all []webhook) {
	api := c.client.AdmissionregistrationV1()
	c.readable(ofValidating, each(ctx, api.ValidatingWebhookConfigurations().List, metav1.ListOptions{}, func(v *admissionv1.ValidatingWebhookConfiguration) {
		for _, w := range v.Webhooks {
			sees := sight{w.Rules, selects(w.ObjectSelector) || len(w.MatchConditions) > 0, selects(w.NamespaceSelector)}
			all = append(all, webhook{"validatingwebhookconfiguration " + v.Name, w.Name, w.FailurePolicy, w.ClientConfig.Service, sees})
		}
	}))
	c.readable(ofMutating, each(ctx, api.MutatingWebhookConfigurations().List, metav1.ListOptions{}, func(m *admissionv1.MutatingWebhookConfiguration) {
		for _, w := range m.Webhooks {
			sees := sight{w.Rules, selects(w.ObjectSelector) || len(w.MatchConditions) > 0, selects(w.NamespaceSelector)}
			all = append(all, webhook{"mutatingwebhookconfiguration " + m.Name, w.Name, w.FailurePolicy, w.ClientConfig.Service, sees})
		}
	}))
	return all
}

func (c *checker) webhook(ctx context.Context, w *webhook) {
	ignored := w.policy != nil && *w.policy == admissionv1.Ignore
	stopped := w.stops()
	if ignored || stopped == "" {
		return
	}
	server := "whether its URL answers is not known"
	if s := w.service; s != nil {
		name := "Service " + s.Namespace + "/" + s.Name
		switch known, ready := c.served(ctx, s); {
		case known && !ready:
			c.tell(report.WebhookBlocks, w.configuration, fmt.Sprintf("nothing ready is behind %s of webhook %s, and so each write of %s is refused", name, w.name, stopped))
			return
		case known:
			server = "ready Pods are behind " + name
		default:
			server = "whether " + name + " answers is not known"
		}
	}
	c.tell(report.WebhookInTheWay, w.configuration, fmt.Sprintf("webhook %s sees each write of %s with failurePolicy Fail; %s", w.name, stopped, server))
}

// served reports whether a Service has a ready endpoint, if that is known.
func (c *checker) served(ctx context.Context, s *admissionv1.ServiceReference) (known, ready bool) {
	service, err := c.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, false
	}
	if !c.readable("service "+s.Namespace+"/"+s.Name, err) || service.Spec.Type == corev1.ServiceTypeExternalName {
		return false, false
	}
	err = each(ctx, c.client.DiscoveryV1().EndpointSlices(s.Namespace).List, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name}, func(slice *discoveryv1.EndpointSlice) {
		ready = ready || slices.ContainsFunc(slice.Endpoints, isReady)
	})
	return c.readable("endpointslices of service "+s.Namespace+"/"+s.Name, err), ready
}

// isReady reports whether an endpoint takes connections; one without the condition does.
func isReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }
