package routing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// filteredServices is an informer of some Services.
type filteredServices struct {
	coreinformers.ServiceInformer
	mine func(*corev1.Service) bool
}

func (f filteredServices) Informer() cache.SharedIndexInformer {
	return filteredInformer{f.ServiceInformer.Informer(), func(object any) bool {
		s, ok := object.(*corev1.Service)
		return ok && f.mine(s)
	}}
}

func (f filteredServices) Lister() corelisters.ServiceLister {
	return filteredLister{f.ServiceInformer.Lister(), f.mine}
}

type filteredInformer struct {
	cache.SharedIndexInformer
	mine func(any) bool
}

func (f filteredInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.SharedIndexInformer.AddEventHandlerWithResyncPeriod(cache.FilteringResourceEventHandler{FilterFunc: f.mine, Handler: handler}, resync)
}

type filteredLister struct {
	corelisters.ServiceLister
	mine func(*corev1.Service) bool
}

func (f filteredLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return filteredNamespace{f.ServiceLister.Services(namespace), f.mine}
}

type filteredNamespace struct {
	corelisters.ServiceNamespaceLister
	mine func(*corev1.Service) bool
}

func (f filteredNamespace) Get(name string) (*corev1.Service, error) {
	s, err := f.ServiceNamespaceLister.Get(name)
	if err == nil && !f.mine(s) {
		return nil, apierrors.NewNotFound(services, name)
	}
	return s, err
}
