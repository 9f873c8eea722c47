package manager

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cloud-provider/names"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers/persistentvolume"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Status implements statusapi.Source.
func (s *statusSource) Status(ctx context.Context) (*v1alpha1.Status, error) {
	out := &v1alpha1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Status"}, Time: metav1.Now(),
		Manager: s.self(), Providers: []v1alpha1.Provider{},
	}
	if s.election.LeaderElect {
		out.Manager.Holder = s.holder(ctx)
	}
	all := s.statuses()
	if out.Manager.Leads && s.synced() {
		out.Nobodys = s.countObjects(all)
	}
	for _, p := range all {
		out.Providers = append(out.Providers, p.status)
	}
	return out, nil
}

// countObjects counts the objects of each provider, and names the stuck ones.
// It returns those without a provider.
func (s *statusSource) countObjects(all []view) (nobodys []v1alpha1.Explanation) {
	for i := range all {
		all[i].status.Services, all[i].status.Nodes = &v1alpha1.Objects{}, &v1alpha1.Objects{}
		if all[i].runs(names.NodeRouteController) {
			all[i].status.Routes = &v1alpha1.Objects{}
		}
		if all[i].runs(persistentvolume.Name) && s.volumesSynced() {
			all[i].status.Volumes = &v1alpha1.Objects{}
		}
	}
	for e := range s.explained(all) {
		nobodys = appendNobodys(nobodys, e)
		count(all, e)
	}
	return nobodys
}

// explained explains each Node, with its route where the provider makes them, each
// Service, and each PersistentVolume whose provider labels them: all counts of objects
// come from these explanations.
func (s *statusSource) explained(all []view) iter.Seq[v1alpha1.Explanation] {
	return func(yield func(v1alpha1.Explanation) bool) {
		for _, node := range byName(s.list()) {
			if !yield(s.node(node, all)) {
				return
			}
			if p := s.asked(node, all); p != nil && p.runs(names.NodeRouteController) && !yield(s.route(node, all)) {
				return
			}
		}
		services, _ := s.services.List(labels.Everything()) // a store in memory returns no errors
		for _, service := range byName(services) {
			if !yield(s.service(service, all)) {
				return
			}
		}
		if !s.volumesSynced() {
			return
		}
		volumes, _ := s.volumes.List(labels.Everything())
		for _, volume := range byName(volumes) {
			if p := s.volumeProvider(volume, all); p != nil && p.runs(persistentvolume.Name) && !yield(s.volume(volume, all)) {
				return
			}
		}
	}
}

// runs reports whether a control loop runs for the provider.
func (v view) runs(loop string) bool {
	return slices.ContainsFunc(v.status.Loops, func(l v1alpha1.Loop) bool { return l.Name == loop && l.Running })
}

// byName sorts a copy, so that the same objects are named each time.
func byName[T metav1.Object](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

func appendNobodys(all []v1alpha1.Explanation, e v1alpha1.Explanation) []v1alpha1.Explanation {
	if e.Provider != "" || e.State != v1alpha1.StateStuck || len(all) == v1alpha1.MaxStuck {
		return all
	}
	return append(all, e)
}

// count adds one object to the counts of its provider.
func count(all []view, e v1alpha1.Explanation) {
	p := viewOf(all, e.Provider)
	if p == nil || e.State == v1alpha1.StateIgnored {
		return
	}
	counts := p.status.Services
	switch e.Object.Kind {
	case v1alpha1.KindNode:
		counts = p.status.Nodes
	case v1alpha1.KindRoute:
		counts = p.status.Routes
	case v1alpha1.KindVolume:
		counts = p.status.Volumes
	}
	if counts == nil { // another provider has the object than a moment ago, and does not run this loop
		return
	}
	counts.Total++
	if e.State != v1alpha1.StateStuck {
		return
	}
	counts.Stuck++
	if len(p.status.Stuck) < v1alpha1.MaxStuck {
		p.status.Stuck = append(p.status.Stuck, e)
	}
}
