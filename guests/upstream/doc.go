// Package upstream serves ABI v1 with a cloud provider that was written for
// Kubernetes' own cloud-controller-manager: any cloudprovider.Interface. A
// guest is a main package of ten lines:
//
//	func init() { upstream.Serve("aws", version, upstream.Registered("aws")) }
//	func main() {}
//
// The provider is not changed, and knows nothing of the host. Its HTTP clients
// reach the cloud by the host call http_send: those that use the default
// transport, a clone of it, or the proxy of the environment. The host adds the
// credential that the configuration names for the request's host; what the
// provider signed with is left out. Its Kubernetes clients and informers read
// objects that the adapter fetches when an op begins.
//
// The provider is made at the first op that may use the network, since
// constructors do; configure and lb_name do not need it. Its goroutines run
// while an op runs, and wait otherwise.
//
// The host deletes a Node of an instance that does not exist. Providers that
// were written for clouds that answer truthfully say so too easily: see
// Settings.StrictExistence.
package upstream
