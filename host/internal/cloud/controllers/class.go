package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// showServices returns how the service loop sees a Service. Upstream's loop ignores Services
// with a spec.loadBalancerClass; so a class that the provider serves is moved to
// metadata.selfLink, an unused field that no API server fills in. The class stays there in
// every copy of the loop until withClass moves it back before the provider is asked.
//
// It cannot get to the API server: the loop writes the difference of two copies without
// spec, and both have the same selfLink.
func showServices(classes func(*corev1.Service) bool) func(any) any {
	show := func(s *corev1.Service) *corev1.Service {
		switch hide := classes != nil && s.Spec.LoadBalancerClass != nil && classes(s); {
		case hide:
			s = s.DeepCopy()
			*carrier(s), s.Spec.LoadBalancerClass = *s.Spec.LoadBalancerClass, nil
		case *carrier(s) != "": // set by a user; API servers drop it
			s = s.DeepCopy()
			*carrier(s) = ""
		}
		return s
	}
	return func(obj any) any {
		switch o := obj.(type) {
		case *corev1.Service:
			return show(o)
		case cache.DeletedFinalStateUnknown:
			if s, ok := o.Obj.(*corev1.Service); ok {
				o.Obj = show(s)
			}
			return o
		}
		return obj
	}
}

// withClass undoes showServices.
func withClass(s *corev1.Service) *corev1.Service {
	if *carrier(s) == "" {
		return s
	}
	s = s.DeepCopy()
	class := *carrier(s)
	*carrier(s), s.Spec.LoadBalancerClass = "", &class
	return s
}

// carrier returns the field that carries the class.
func carrier(s *corev1.Service) *string {
	return &s.SelfLink //nolint:staticcheck // deprecated, so nobody else uses it
}

// shownTo returns a handler that receives the shown objects.
func shownTo(h cache.ResourceEventHandler, shown func(any) any) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { h.OnAdd(shown(obj), initial) },
		UpdateFunc: func(old, obj any) { h.OnUpdate(shown(old), shown(obj)) },
		DeleteFunc: func(obj any) { h.OnDelete(shown(obj)) },
	}
}
