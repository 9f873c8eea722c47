// Package routing decides which of several providers an object of the cluster belongs to. It
// wraps a provider's cloudprovider.Interface so that the provider serves only its own
// objects. An object without a provider is left alone: it is never deleted and never given
// to another provider.
package routing

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

const (
	// NodeLabel names the provider of a Node that has no ProviderID (yet).
	NodeLabel = "wasm-ccm.dev/provider"
	// ServiceAnnotation is the user's choice of a provider.
	ServiceAnnotation = "wasm-ccm.dev/provider"
	// ServiceOwnerLabel names the provider that has, or may have, a load
	// balancer for the Service. This package sets and removes it. It is a label
	// since upstream ensures a Service anew when its annotations change.
	ServiceOwnerLabel = "wasm-ccm.dev/load-balancer-provider"
)

// Rules describe the objects of one provider.
type Rules struct {
	// Provider is the provider's name, a DNS label.
	Provider string
	// Schemes of the ProviderIDs of its Nodes, e.g. "openstack" for
	// openstack:///1234. Empty means the provider's name.
	Schemes []string
	// AskNodes lets the provider be asked whether it knows a Node that has
	// neither a ProviderID nor a label.
	AskNodes bool
	// DefaultServices gives it the Services that name no provider.
	DefaultServices bool
	// Classes are the values of spec.loadBalancerClass of its Services. A single provider with
	// no other rule has everything else, too.
	Classes []string
	// VolumeDrivers are names of CSI drivers; VolumeSchemes are the schemes, before "://", of
	// its volume handles. Empty means no volumes.
	VolumeDrivers, VolumeSchemes []string
}

func (r Rules) empty() bool {
	return len(r.Schemes)+len(r.VolumeDrivers)+len(r.VolumeSchemes) == 0 && !r.AskNodes && !r.DefaultServices
}

// Router knows the providers' rules, which may be replaced, and their clouds. It is safe for
// concurrent use. The functions that it returns are cheap, and follow the rules in force at
// the call.
type Router struct {
	current atomic.Pointer[table]

	mu      sync.RWMutex
	peers   map[string]*peer
	changed chan struct{} // closed when the rules are replaced
}

// table is the merged rules of all providers. It is immutable.
type table struct {
	rules          map[string]Rules
	everything     bool // belongs to the only provider
	names          []string
	schemes        map[string]string // these four map to the provider's name
	drivers        map[string]string
	volumeSchemes  map[string]string
	classes        map[string]string
	defaultService string
	ask            []string // the providers that may be asked about Nodes
}

func (r *Router) table() *table { return r.current.Load() }

// Everything reports whether there is one provider, without rules. It has all objects except
// those owned by another provider before.
func (r *Router) Everything() bool { return r.table().everything }

// Changed returns a channel that is closed when the rules are replaced.
func (r *Router) Changed() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.changed
}

// Nodes selects the Nodes of a loop that only initialises or updates: the provider's own,
// and unmarked ones about which it may be asked. Nil means all. A provider unknown to New
// has none; so with the other selectors.
func (r *Router) Nodes(provider string) func(*corev1.Node) bool {
	if r.table().everything {
		return nil
	}
	return func(node *corev1.Node) bool {
		t := r.table()
		return t.owns(provider, node) || t.mayAsk(provider) && unmarked(node)
	}
}

// OwnedNodes selects the Nodes that are surely the provider's: by the scheme of
// the ProviderID, or by the label while there is none. Nil means all.
func (r *Router) OwnedNodes(provider string) func(*corev1.Node) bool {
	if r.table().everything {
		return nil
	}
	return func(node *corev1.Node) bool { return r.OwnsNode(provider, node) }
}

// OwnsNode reports whether a Node is surely the provider's now.
func (r *Router) OwnsNode(provider string, node *corev1.Node) bool {
	t := r.table()
	return t.everything && t.known(provider) || t.owns(provider, node)
}

// Services selects the provider's Services: by the owner label, else by the class, else by
// the user's annotation, else by default. A provider that has everything has all Services
// without another owner; Classes decides whether it serves one with a class.
func (r *Router) Services(provider string) func(*corev1.Service) bool {
	return func(service *corev1.Service) bool {
		t := r.table()
		if t.everything {
			return t.known(provider) && !t.lost(service) && !t.cleanedByOthers(service)
		}
		return t.known(provider) && t.serviceName(service) == provider
	}
}

// PersistentVolumes selects the provider's volumes: by the CSI driver, else by
// the scheme of the volume's handle. Nil means all.
func (r *Router) PersistentVolumes(provider string) func(*corev1.PersistentVolume) bool {
	if r.table().everything {
		return nil
	}
	return func(pv *corev1.PersistentVolume) bool {
		t := r.table()
		return t.known(provider) && t.volumeOwner(pv) == provider
	}
}

// lost reports whether a Service has a load balancer of a provider that is not
// configured.
func (t *table) lost(service *corev1.Service) bool {
	// Invariant P5 (host/SECURITY.md): no other provider is asked about the Service.
	owner := service.Labels[ServiceOwnerLabel]
	return owner != "" && !t.known(owner)
}

func (t *table) known(provider string) bool { return slices.Contains(t.names, provider) }

func (t *table) mayAsk(provider string) bool { return slices.Contains(t.ask, provider) }

// Invariant P1 (host/SECURITY.md): at most one provider owns a Node.
func (t *table) owns(provider string, node *corev1.Node) bool {
	return t.known(provider) && t.nodeName(node) == provider
}

// nodeName returns the provider that the Node names, configured or not, or "".
func (t *table) nodeName(node *corev1.Node) string {
	if node.Spec.ProviderID != "" {
		return t.schemes[schemeOf(node.Spec.ProviderID)]
	}
	return node.Labels[NodeLabel]
}

// unmarked reports whether nothing on the Node names its provider.
func unmarked(node *corev1.Node) bool {
	return node.Spec.ProviderID == "" && node.Labels[NodeLabel] == ""
}

// serviceName returns the provider that the Service names, configured or not,
// or "".
func (t *table) serviceName(service *corev1.Service) string {
	if owner := service.Labels[ServiceOwnerLabel]; owner != "" {
		return owner
	}
	// Invariant P7 (host/SECURITY.md): a class decides before the annotation, and an unknown class is not
	// the default provider's.
	if class := service.Spec.LoadBalancerClass; class != nil {
		return t.classes[*class]
	}
	if choice := service.Annotations[ServiceAnnotation]; choice != "" {
		return choice
	}
	return t.defaultService
}

func (t *table) volumeOwner(pv *corev1.PersistentVolume) string {
	if csi := pv.Spec.CSI; csi != nil {
		if owner, ok := t.drivers[csi.Driver]; ok {
			return owner
		}
		return t.volumeSchemes[schemeOf(csi.VolumeHandle)]
	}
	return t.volumeSchemes[schemeOf(inTreeID(pv))]
}

// inTreeID returns the id of a volume of a cloud's in-tree source; only some ids have a
// scheme, e.g. aws://eu-west-1a/vol-1.
func inTreeID(pv *corev1.PersistentVolume) string {
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.AWSElasticBlockStore != nil:
		return s.AWSElasticBlockStore.VolumeID
	case s.GCEPersistentDisk != nil:
		return s.GCEPersistentDisk.PDName
	case s.Cinder != nil:
		return s.Cinder.VolumeID
	case s.AzureDisk != nil:
		return s.AzureDisk.DataDiskURI
	case s.VsphereVolume != nil:
		return s.VsphereVolume.VolumePath
	}
	return ""
}

// schemeOf returns what is before "://", or "".
func schemeOf(id string) string {
	if scheme, _, ok := strings.Cut(id, "://"); ok {
		return scheme
	}
	return ""
}
