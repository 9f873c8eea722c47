package loadbalancer

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// The names are those of cloud-provider-openstack, so that its load balancers
// are found.
const (
	servicePrefix     = "kube_service_"
	floatingIPPrefix  = "Floating IP for Kubernetes external service "
	maxNameBytes      = 255
	legacyNameBytes   = 32
	xForwardedFor     = "X-Forwarded-For"
	descriptionPrefix = "Kubernetes external service "
)

// Name is the name and the tag of the load balancer of a Service.
func Name(cluster string, service *abi.Service) string {
	return cut(servicePrefix + cluster + "_" + service.Namespace + "_" + service.Name)
}

// legacyName is the former name of load balancers, from the Service's UID.
func legacyName(service *abi.Service) string {
	name := "a" + strings.ReplaceAll(service.Uid, "-", "")
	return name[:min(len(name), legacyNameBytes)]
}

func childName(kind string, index int, name string) string {
	return cut(fmt.Sprintf("%s_%d_%s", kind, index, name))
}

func serialMemberName(node, address string, port int64) string {
	return cut(fmt.Sprintf("member_%s_%s_%d", node, address, port))
}

func cut(name string) string { return name[:min(len(name), maxNameBytes)] }

func (k *call) description() string {
	return descriptionPrefix + k.service.Namespace + "/" + k.service.Name + " from cluster " + k.cluster
}

// floatingDescription marks the floating IPs made for a Service.
func (k *call) floatingDescription() string {
	return floatingIPPrefix + k.service.Namespace + "/" + k.service.Name + " from cluster " + k.cluster
}
