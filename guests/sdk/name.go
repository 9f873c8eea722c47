package sdk

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// DefaultLoadBalancerName is the naming scheme of Kubernetes' own providers:
// "a" and the Service's UID, 32 letters and digits. Use it to take over load
// balancers of such a provider.
func DefaultLoadBalancerName(service *abi.Service) string {
	const most = 32
	name := "a" + strings.ReplaceAll(service.Uid, "-", "")
	return name[:min(len(name), most)]
}

// LoadBalancerName is a readable name for the cloud's console:
// k8s-NAMESPACE-NAME-1a2b3c4d, of at most that many bytes, 32 at least. The
// suffix is derived from the Service's UID, so that two Services never share a
// name and a recreated Service has a new one. The name has letters, digits and
// "-" only, and never changes for a Service.
func LoadBalancerName(service *abi.Service, most int) string {
	const prefix, end, least = "k8s-", 8, 32
	uid := strings.ReplaceAll(service.Uid, "-", "")
	uid = uid[:min(len(uid), end)]
	room := max(most, least) - len(prefix) - len(uid) - len("--")
	namespace, name := service.Namespace, service.Name
	if len(namespace)+len(name) > room {
		namespace = namespace[:min(len(namespace), max(room/2, room-len(name)))]
		name = name[:min(len(name), room-len(namespace))]
	}
	return prefix + namespace + "-" + name + "-" + uid
}
