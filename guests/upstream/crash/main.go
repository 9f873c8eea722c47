// Command crash is a provider that ends its process, for tests of the manager's
// report. It imports what a provider does.
package main

import (
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/guests/upstream"
)

var version = "1.0.0"

//nolint:gochecknoinits // main of a reactor is never run
func init() {
	upstream.Serve("crash", version, func(*upstream.Environment) (cloudprovider.Interface, error) { return cloud{}, nil })
}

func main() {}

// cloud has only load balancers.
type cloud struct{}

func (cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return balancers{}, true }
func (cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return nil, false }
func (cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (cloud) ProviderName() string                                              { return "crash" }
func (cloud) HasClusterID() bool                                                { return true }

type balancers struct{}

func (balancers) GetLoadBalancerName(_ context.Context, _ string, s *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(s)
}

func (balancers) GetLoadBalancer(context.Context, string, *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	return nil, false, nil
}

// EnsureLoadBalancer obeys the Service's annotation crash.
func (balancers) EnsureLoadBalancer(_ context.Context, _ string, s *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	switch how := s.Annotations["crash"]; how {
	case "panic":
		panicInTheProvider(s.Name)
	case "goroutine":
		done := make(chan struct{})
		go panicInTheProvider(s.Name)
		<-done
	case "fatal":
		fatalInTheProvider(s.Name)
	case "":
	default:
		return nil, fmt.Errorf("no crash %q", how)
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}, nil
}

func panicInTheProvider(name string) { panic("the provider panics for " + name) }

func fatalInTheProvider(name string) {
	klog.Fatalf("the provider gives up on %s: %v", name, io.ErrUnexpectedEOF)
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, s *v1.Service, nodes []*v1.Node) error {
	_, err := b.EnsureLoadBalancer(ctx, cluster, s, nodes)
	return err
}

func (balancers) EnsureLoadBalancerDeleted(context.Context, string, *v1.Service) error { return nil }
