package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Service explains why a Service has a load balancer or not.
func Service(s *corev1.Service, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindService, s.Namespace, s.Name, f)
	wants, cleansUp := s.Spec.Type == corev1.ServiceTypeLoadBalancer, servicehelpers.HasLBFinalizer(s)
	switch {
	case !wants && !cleansUp:
		is(&e, v1alpha1.StateIgnored, report.NotALoadBalancer, "spec.type is %s, so no load balancer is made", s.Spec.Type)
		advise(&e, f)
	case f.Provider == nil:
		nobodysService(&e, s, f)
	case !cleansUp && len(s.Status.LoadBalancer.Ingress) > 0 && f.Provider.Serving != nil && !running(f.Provider, serviceLoop):
		is(&e, v1alpha1.StateIgnored, report.OtherController, "the manager makes no load balancers for provider %s, and its address %s is another controller's", e.Provider, ingress(s))
	case idle(&e, f, serviceLoop), asked(&e, f), heard(&e, f):
	default:
		balanced(&e, s, f)
	}
	if s.DeletionTimestamp != nil && e.State != v1alpha1.StateIgnored {
		e.Message = "it is being deleted, and waits until its load balancer is gone: " + e.Message
		if e.State == v1alpha1.StateDone {
			e.State, e.Cause = v1alpha1.StateProgressing, report.InProgress
		}
	}
	if f.OtherChoice != "" {
		e.Also = append(e.Also, v1alpha1.Finding{Cause: report.LoadBalancerNotMoved, Message: "the load balancer stays with its provider, although " + f.OtherChoice})
	}
	return bounded(e)
}

func running(p *v1alpha1.Provider, loop string) bool {
	return slices.ContainsFunc(p.Loops, func(l v1alpha1.Loop) bool { return l.Name == loop && l.Running })
}

// nobodysService explains a Service that no provider has.
func nobodysService(e *v1alpha1.Explanation, s *corev1.Service, f Facts) {
	if f.Advice == "" {
		class := ""
		if s.Spec.LoadBalancerClass != nil {
			class = *s.Spec.LoadBalancerClass
		}
		is(e, v1alpha1.StateIgnored, report.OtherController, "its class %s (spec.loadBalancerClass) is in no provider's routing.services.classes, so it is left to another controller", text.Quote(class))
		advise(e, f)
		return
	}
	is(e, v1alpha1.StateStuck, report.NoProvider, "%s", f.Advice)
	since(e, s.CreationTimestamp.Time)
	if s.Labels["wasm-ccm.dev/load-balancer-provider"] != "" {
		next(e, fmt.Sprintf("helm -n %s get values ccm", f.Namespace), "what is configured")
		return
	}
	next(e, fmt.Sprintf("kubectl -n %s annotate --overwrite service %s wasm-ccm.dev/provider=%s", s.Namespace, s.Name, oneOf(f.Providers)), "for example")
}

// oneOf is the provider for a suggested command, if there is only one to choose.
func oneOf(providers []string) string {
	if len(providers) == 1 {
		return providers[0]
	}
	return "PROVIDER"
}

// balanced explains a Service without a known error.
func balanced(e *v1alpha1.Explanation, s *corev1.Service, f Facts) {
	has := len(s.Status.LoadBalancer.Ingress) > 0
	switch {
	case s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		is(e, v1alpha1.StateProgressing, report.InProgress, "the service controller removes the load balancer")
	case f.ReadyNodes == 0 && (has || f.Heard != nil):
		is(e, v1alpha1.StateStuck, report.NoNodes, "no Node of provider %s is Ready and may be behind a load balancer, so its traffic goes nowhere", e.Provider)
		advise(e, f)
		e.WaitsFor = "a Node that is Ready; the provider is told within seconds"
	case has:
		is(e, v1alpha1.StateDone, "", "provider %s has made the load balancer as the Service says: %s", e.Provider, ingress(s))
	case f.Heard != nil:
		is(e, v1alpha1.StateStuck, report.Failed, "the provider says that the load balancer is made, and gives it no address")
		next(e, fmt.Sprintf("kubectl -n %s describe service %s", s.Namespace, s.Name), "look at the Service's Events, and at the provider")
	default:
		is(e, v1alpha1.StateProgressing, report.NotAskedYet, "the service controller has not reached it yet")
		since(e, s.CreationTimestamp.Time)
		e.WaitsFor = "its turn: as many ops run as the module has instances (limits.instances), and a manager that has just begun to lead asks about every Service"
	}
}

func ingress(s *corev1.Service) string {
	var all []string
	for _, i := range s.Status.LoadBalancer.Ingress[:min(len(s.Status.LoadBalancer.Ingress), 8)] {
		all = append(all, i.IP+i.Hostname)
	}
	return fmt.Sprint(slices.Compact(all))
}
