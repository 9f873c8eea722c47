package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// scheme is that of guests/faulty, so that both make the same Nodes.
const scheme = "faulty://"

const opUpdate = "lb_update"

// maxAnswer bounds an answer of the cloud.
const maxAnswer = 1 << 20

// cloud is a provider without routes. Its own goroutines wait for the cloud, each as
// long as that takes.
type cloud struct {
	cloudprovider.Interface
	url    string
	client http.Client
}

func newCloud(config io.Reader) (*cloud, error) {
	lines := bufio.NewScanner(config)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "count="); ok {
			return &cloud{url: url}, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	return nil, errors.New("the configuration has no line count=URL")
}

// Initialize implements cloudprovider.Interface.
func (*cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName implements cloudprovider.Interface.
func (*cloud) ProviderName() string { return name }

// HasClusterID implements cloudprovider.Interface.
func (*cloud) HasClusterID() bool { return true }

// LoadBalancer implements cloudprovider.Interface.
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

// InstancesV2 implements cloudprovider.Interface.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// Instances implements cloudprovider.Interface.
func (*cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (*cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (*cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (*cloud) GetLoadBalancerName(_ context.Context, _ string, s *corev1.Service) string {
	return "lb-" + string(s.UID)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (c *cloud) GetLoadBalancer(ctx context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	_, found, err := c.send(ctx, "lb_get", http.MethodGet, path(s), "")
	if err != nil || !found {
		return nil, false, err
	}
	return status(s), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (c *cloud) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return status(s), c.put(ctx, "lb_ensure", s, nodes)
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (c *cloud) UpdateLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) error {
	return c.put(ctx, opUpdate, s, nodes)
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *corev1.Service) error {
	_, _, err := c.send(ctx, "lb_delete", http.MethodDelete, path(s), "")
	return err
}

// InstanceExists implements cloudprovider.InstancesV2.
func (c *cloud) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	return c.hasServer(ctx, "instance_exists", n)
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (*cloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *cloud) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := c.hasServer(ctx, "instance_metadata", n)
	if err == nil && !found {
		err = cloudprovider.InstanceNotFound
	}
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    scheme + n.Name,
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address(172, n.Name)}},
	}, nil
}

func (c *cloud) hasServer(ctx context.Context, op string, n *corev1.Node) (bool, error) {
	server := n.Name
	if n.Spec.ProviderID != "" {
		var ours bool
		if server, ours = strings.CutPrefix(n.Spec.ProviderID, scheme); !ours {
			return false, fmt.Errorf("the provider ID %q does not begin with %s", n.Spec.ProviderID, scheme)
		}
	}
	_, found, err := c.send(ctx, op, http.MethodGet, "/server/"+server, "")
	return found, err
}

// put writes unless that is what is there.
func (c *cloud) put(ctx context.Context, op string, s *corev1.Service, nodes []*corev1.Node) error {
	body := wanted(s, nodes)
	old, found, err := c.send(ctx, op, http.MethodGet, path(s), "")
	if err != nil || found && old == body {
		return err
	}
	if !found && op == opUpdate {
		return fmt.Errorf("there is no %s", path(s))
	}
	_, _, err = c.send(ctx, op, http.MethodPut, path(s), body)
	return err
}

// send makes one request; 404 is not found, and no error.
func (c *cloud) send(ctx context.Context, op, method, path, body string) (answer string, found bool, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return "", false, err
	}
	request.Header.Set("X-Op", op)
	if op == opUpdate && method == http.MethodPut {
		request.Header.Set("If-Match", "*") // upstream updates while it deletes
	}
	response, err := c.client.Do(request)
	if err != nil {
		return "", false, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%s %s: %w", method, path, err)
	case response.StatusCode == http.StatusNotFound:
		return "", false, nil
	case response.StatusCode/100 != 2:
		return "", false, fmt.Errorf("%s %s: the cloud answered %d", method, path, response.StatusCode)
	}
	return string(data), true, nil
}

func path(s *corev1.Service) string { return "/lb/" + string(s.UID) }

// wanted is what the cloud has to keep of a Service.
func wanted(s *corev1.Service, nodes []*corev1.Node) string {
	lines := []string{"service " + s.Namespace + "/" + s.Name}
	for _, port := range s.Spec.Ports {
		lines = append(lines, fmt.Sprintf("port %d/%s", port.Port, port.Protocol))
	}
	var names []string
	for _, n := range nodes {
		names = append(names, "node "+n.Name)
	}
	slices.Sort(names)
	return strings.Join(append(lines, names...), "\n") + "\n"
}

func status(s *corev1.Service) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address(198, string(s.UID))}}}
}

// address is one that belongs to the text, of the network first/8.
func address(first int, text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	n := h.Sum32()
	return fmt.Sprintf("%d.%d.%d.%d", first, n>>16&0xff, n>>8&0xff, n&0xff)
}
