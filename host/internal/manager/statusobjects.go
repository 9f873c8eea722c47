package manager

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// countObjects counts the objects of each provider, and names those that are stuck.
// Those of nobody it returns.
func (s *statusSource) countObjects(all []view) (nobodys []v1alpha1.Explanation) {
	for i := range all {
		all[i].status.Services, all[i].status.Nodes = &v1alpha1.Objects{}, &v1alpha1.Objects{}
	}
	for _, node := range s.list() {
		e := s.node(node, all)
		nobodys = appendNobodys(nobodys, e)
		count(all, e, func(p *v1alpha1.Provider) *v1alpha1.Objects { return p.Nodes })
	}
	services, _ := s.services.List(labels.Everything()) // of a store in memory there is no error
	for _, service := range services {
		e := s.service(service, all)
		nobodys = appendNobodys(nobodys, e)
		count(all, e, func(p *v1alpha1.Provider) *v1alpha1.Objects { return p.Services })
	}
	return nobodys
}

func appendNobodys(all []v1alpha1.Explanation, e v1alpha1.Explanation) []v1alpha1.Explanation {
	if e.Provider != "" || e.State != v1alpha1.StateStuck || len(all) == v1alpha1.MaxStuck {
		return all
	}
	return append(all, e)
}

// count adds one object to those of its provider.
func count(all []view, e v1alpha1.Explanation, of func(*v1alpha1.Provider) *v1alpha1.Objects) {
	p := viewOf(all, e.Provider)
	if p == nil || e.State == v1alpha1.StateIgnored {
		return
	}
	counts := of(&p.status)
	counts.Total++
	if e.State != v1alpha1.StateStuck {
		return
	}
	counts.Stuck++
	if len(p.status.Stuck) < v1alpha1.MaxStuck {
		p.status.Stuck = append(p.status.Stuck, e)
	}
}
