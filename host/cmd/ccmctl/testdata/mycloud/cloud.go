// Package mycloud is a provider of upstream's interface for a cloud with one
// kind of object. Its constructor sends no request.
package mycloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func init() {
	cloudprovider.RegisterCloudProvider("mycloud", func(io.Reader) (cloudprovider.Interface, error) {
		return &cloud{url: os.Getenv("MYCLOUD_URL")}, nil
	})
}

type cloud struct{ url string }

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) ProviderName() string                                              { return "mycloud" }
func (c *cloud) HasClusterID() bool                                                { return true }

type machine struct{ ID, Name, Address string }

func (c *cloud) find(ctx context.Context, node *v1.Node) (*machine, error) {
	if id, ok := strings.CutPrefix(node.Spec.ProviderID, "mycloud://"); ok {
		var m machine
		if err := c.get(ctx, "/machines/"+url.PathEscape(id), &m); err != nil {
			return nil, err
		}
		if m.ID != id {
			return nil, fmt.Errorf("the API answered machine %q to a question for %q", m.ID, id)
		}
		return &m, nil
	}
	var list struct{ Machines *[]machine }
	if err := c.get(ctx, "/machines?name="+url.QueryEscape(node.Name), &list); err != nil {
		return nil, err
	}
	if list.Machines == nil {
		return nil, errors.New("the API answered without a list")
	}
	for _, m := range *list.Machines {
		if m.Name == node.Name {
			return &m, nil
		}
	}
	return nil, cloudprovider.InstanceNotFound
}

func (c *cloud) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(response.Body).Decode(into)
	case http.StatusNotFound:
		return cloudprovider.InstanceNotFound
	}
	return fmt.Errorf("GET %s: %s", path, response.Status)
}

// InstanceExists implements cloudprovider.InstancesV2.
func (c *cloud) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := c.find(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *cloud) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := c.find(ctx, node)
	return false, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := c.find(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "mycloud://" + m.ID, InstanceType: "small", Zone: "a", Region: "r",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: m.Address}},
	}, nil
}
