// Package routing decides which of several providers an object of the cluster
// belongs to. It wraps a provider's cloudprovider.Interface so that the provider
// serves only its own objects. An object without a provider is left alone: it is
// never deleted and never given to another provider.
package routing

import (
	"slices"
	"strings"
	"sync"

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

// Rules say what belongs to one provider.
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
	// VolumeDrivers are names of CSI drivers; VolumeSchemes are what its volume
	// handles begin with before "://". Empty means no volumes.
	VolumeDrivers, VolumeSchemes []string
}

func (r Rules) empty() bool {
	return len(r.Schemes)+len(r.VolumeDrivers)+len(r.VolumeSchemes) == 0 && !r.AskNodes && !r.DefaultServices
}

// Router knows the providers' rules and their clouds. It is safe for
// concurrent use. The functions that it returns are pure and cheap.
type Router struct {
	everything     bool // belongs to the only provider
	names          []string
	schemes        map[string]string // these three: to the provider's name
	drivers        map[string]string
	volumeSchemes  map[string]string
	defaultService string
	ask            []string // the providers that may be asked for nodes

	mu    sync.RWMutex
	peers map[string]*peer
}

// Everything reports whether there is one provider, without rules. It has all
// but what another one has owned.
func (r *Router) Everything() bool { return r.everything }

// Nodes selects what a loop may see that only initialises or updates Nodes:
// the provider's own, and those of nobody for which it may be asked. Nil means
// all. A provider that New was not told of has none; so with the others.
func (r *Router) Nodes(provider string) func(*corev1.Node) bool {
	if r.everything {
		return nil
	}
	ask := r.mayAsk(provider)
	return func(node *corev1.Node) bool {
		return r.owns(provider, node) || ask && unmarked(node)
	}
}

// OwnedNodes selects the Nodes that are surely the provider's: by the scheme of
// the ProviderID, or by the label while there is none. Nil means all.
func (r *Router) OwnedNodes(provider string) func(*corev1.Node) bool {
	if r.everything {
		return nil
	}
	return func(node *corev1.Node) bool { return r.owns(provider, node) }
}

// Services selects the provider's Services: by the owner label, else by the
// user's annotation, else by default. To a provider that has everything belong
// those that no other one has owned.
func (r *Router) Services(provider string) func(*corev1.Service) bool {
	if r.everything {
		return func(service *corev1.Service) bool { return r.known(provider) && !r.lost(service) }
	}
	known := r.known(provider)
	return func(service *corev1.Service) bool { return known && r.serviceName(service) == provider }
}

// PersistentVolumes selects the provider's volumes: by the CSI driver, else by
// the scheme of the volume's handle. Nil means all.
func (r *Router) PersistentVolumes(provider string) func(*corev1.PersistentVolume) bool {
	if r.everything {
		return nil
	}
	known := r.known(provider)
	return func(pv *corev1.PersistentVolume) bool { return known && r.volumeOwner(pv) == provider }
}

// lost reports whether a Service has a load balancer of a provider that is not
// configured.
func (r *Router) lost(service *corev1.Service) bool {
	// Invariant P5 (host/SECURITY.md): nobody else is asked about it.
	owner := service.Labels[ServiceOwnerLabel]
	return owner != "" && !r.known(owner)
}

func (r *Router) known(provider string) bool { return slices.Contains(r.names, provider) }

func (r *Router) mayAsk(provider string) bool { return slices.Contains(r.ask, provider) }

// Invariant P1 (host/SECURITY.md): of two providers it is true of one at most.
func (r *Router) owns(provider string, node *corev1.Node) bool {
	return r.known(provider) && r.nodeName(node) == provider
}

// nodeName returns the provider that the Node names, configured or not, or "".
func (r *Router) nodeName(node *corev1.Node) string {
	if node.Spec.ProviderID != "" {
		return r.schemes[schemeOf(node.Spec.ProviderID)]
	}
	return node.Labels[NodeLabel]
}

// unmarked reports whether nothing on the Node says whose it is.
func unmarked(node *corev1.Node) bool {
	return node.Spec.ProviderID == "" && node.Labels[NodeLabel] == ""
}

// serviceName returns the provider that the Service names, configured or not,
// or "".
func (r *Router) serviceName(service *corev1.Service) string {
	if owner := service.Labels[ServiceOwnerLabel]; owner != "" {
		return owner
	}
	if choice := service.Annotations[ServiceAnnotation]; choice != "" {
		return choice
	}
	return r.defaultService
}

func (r *Router) volumeOwner(pv *corev1.PersistentVolume) string {
	if csi := pv.Spec.CSI; csi != nil {
		if owner, ok := r.drivers[csi.Driver]; ok {
			return owner
		}
		return r.volumeSchemes[schemeOf(csi.VolumeHandle)]
	}
	return r.volumeSchemes[schemeOf(inTreeID(pv))]
}

// inTreeID returns the id of a volume of one of the clouds' in-tree sources;
// only some have a scheme, e.g. aws://eu-west-1a/vol-1.
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
