package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// cloud is a provider with the interfaces that a test sets.
type cloud struct {
	v2        cloudprovider.InstancesV2
	first     cloudprovider.Instances
	zones     cloudprovider.Zones
	balancers cloudprovider.LoadBalancer
	routes    cloudprovider.Routes
	begun     func(cloudprovider.ControllerClientBuilder)
	untagged  bool
}

func (c *cloud) Initialize(b cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	if c.begun != nil {
		c.begun(b)
	}
}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, c.balancers != nil
}
func (c *cloud) Instances() (cloudprovider.Instances, bool)     { return c.first, c.first != nil }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.v2, c.v2 != nil }
func (c *cloud) Zones() (cloudprovider.Zones, bool)             { return c.zones, c.zones != nil }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)       { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)           { return c.routes, c.routes != nil }
func (c *cloud) ProviderName() string                           { return "fake" }
func (c *cloud) HasClusterID() bool                             { return !c.untagged }

// informed is a provider that keeps informers.
type informed struct {
	*cloud
	set func(informers.SharedInformerFactory)
}

func (c *informed) SetInformers(f informers.SharedInformerFactory) { c.set(f) }

// servers is InstancesV2 of a cloud with a REST API, as careless as providers
// are: whatever is not in an answer does not exist.
type servers struct {
	client *http.Client
	url    string // of one server, with %s for its ID
}

type server struct{ ID, Name, State string }

func (s *servers) find(ctx context.Context, node *v1.Node) (*server, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(s.url, lastOf(node.Spec.ProviderID)), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer the-guests-own")
	request.Header.Set("Cookie", "sid=1")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Server  *server
		Servers []server
	}
	_ = json.Unmarshal(body, &answer) // as careless as providers are
	for i := range answer.Servers {
		if answer.Servers[i].ID == lastOf(node.Spec.ProviderID) {
			answer.Server = &answer.Servers[i]
		}
	}
	if answer.Server != nil && answer.Server.ID != lastOf(node.Spec.ProviderID) {
		answer.Server = nil
	}
	if answer.Server == nil || answer.Server.State == "terminated" {
		return nil, cloudprovider.InstanceNotFound
	}
	return answer.Server, nil
}

func (s *servers) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := s.find(ctx, node)
	if err == cloudprovider.InstanceNotFound { //nolint:errorlint // as upstream's providers do
		return false, nil
	}
	return err == nil, err
}

func (s *servers) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := s.find(ctx, node)
	return found != nil && found.State == "off", err
}

func (s *servers) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := s.find(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "fake:///" + found.ID, InstanceType: "small", Zone: "a", Region: "r", AdditionalLabels: map[string]string{"example.com/rack": "7"},
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.7"}, {Type: v1.NodeHostName, Address: node.Name}},
	}, nil
}

// rig is a provider on a host in memory.
type rig struct {
	*sdktest.Host
	t *testing.T
	p *provider
	// requests are those that left the guest.
	requests []*abi.HttpRequest
}

// newRig serves the provider of create. The cloud gives each request the same
// answer until Host.HTTP is set.
func newRig(t *testing.T, config string, create New, options ...Option) *rig {
	t.Helper()
	p := newProvider("fake", "1.0.0", create, options...)
	p.listen = "127.0.0.1:0"
	r := &rig{Host: sdktest.New(t), t: t, p: p}
	t.Cleanup(r.end)
	r.Configure(p, config)
	return r
}

// end stops the provider's informers, as the end of an instance does.
func (r *rig) end() {
	if r.p.kube == nil {
		return
	}
	close(r.p.kube.stop)
	r.p.kube.informers.Shutdown()
}

// serve answers each request with status and body.
func (r *rig) serve(answer func(request *abi.HttpRequest) (status int32, body string)) {
	r.HTTP = func(request *abi.HttpRequest) (*abi.HttpResponse, error) {
		r.requests = append(r.requests, request)
		status, body := answer(request)
		return &abi.HttpResponse{Status: status, Body: []byte(body)}, nil
	}
}

func withServers(url string) New {
	return func(e *Environment) (cloudprovider.Interface, error) {
		return &cloud{v2: &servers{&http.Client{Transport: e.Transport}, url}}, nil
	}
}

func node(name, providerID string) *abi.Node { return &abi.Node{Name: name, ProviderId: providerID} }

// balancers is a LoadBalancer with the results that a test sets.
type balancers struct {
	name   string
	get    func(context.Context, *v1.Service) (*v1.LoadBalancerStatus, bool, error)
	ensure func(context.Context, *v1.Service, []*v1.Node) (*v1.LoadBalancerStatus, error)
}

func (b *balancers) GetLoadBalancerName(_ context.Context, _ string, s *v1.Service) string {
	if b.name != "" {
		return b.name
	}
	return cloudprovider.DefaultLoadBalancerName(s)
}
func (b *balancers) GetLoadBalancer(ctx context.Context, _ string, s *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	return b.get(ctx, s)
}
func (b *balancers) EnsureLoadBalancer(ctx context.Context, _ string, s *v1.Service, n []*v1.Node) (*v1.LoadBalancerStatus, error) {
	return b.ensure(ctx, s, n)
}
func (b *balancers) UpdateLoadBalancer(ctx context.Context, _ string, s *v1.Service, n []*v1.Node) error {
	_, err := b.ensure(ctx, s, n)
	return err
}
func (b *balancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *v1.Service) error {
	_, err := b.ensure(ctx, s, nil)
	return err
}

// routes is a Routes that records them.
type routes struct{ all []*cloudprovider.Route }

func (r *routes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return r.all, nil
}
func (r *routes) CreateRoute(_ context.Context, _, hint string, route *cloudprovider.Route) error {
	route.Name = hint
	r.all = append(r.all, route)
	return nil
}
func (r *routes) DeleteRoute(context.Context, string, *cloudprovider.Route) error {
	r.all = nil
	return nil
}

// first is a provider with the interfaces before InstancesV2.
type first struct{ cloudprovider.Instances }

func (first) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	if name == "gone" {
		return "", cloudprovider.InstanceNotFound
	}
	return "/id-of-" + string(name), nil
}
func (first) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	return id == "fake:///id-of-m1", nil
}
func (first) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	return id == "fake:///id-of-m1", nil
}
func (first) NodeAddressesByProviderID(context.Context, string) ([]v1.NodeAddress, error) {
	return nil, cloudprovider.NotImplemented
}
func (first) NodeAddresses(context.Context, types.NodeName) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}, nil
}
func (first) InstanceTypeByProviderID(context.Context, string) (string, error) { return "big", nil }
func (first) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}
func (first) GetZoneByProviderID(context.Context, string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "z1", Region: "r1"}, nil
}
func (first) GetZoneByNodeName(context.Context, types.NodeName) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}
