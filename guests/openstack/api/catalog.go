package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The catalog is kept in the cache of the host.
const (
	catalogKey  = "openstack/catalog"
	catalogLife = time.Hour
)

// types are the names of the services in catalogs, and version is the required
// end of the URL.
var types = map[Service]struct { //nolint:gochecknoglobals // a constant
	names   []string
	version string
}{
	Compute:      {[]string{"compute"}, ""},
	Network:      {[]string{"network"}, "/v2.0"},
	LoadBalancer: {[]string{"load-balancer"}, "/v2.0"},
	BlockStorage: {[]string{"block-storage", "volumev3", "block-store"}, ""},
}

// endpoint returns the URL of a service with its version, without a final "/".
func (c *Client) endpoint(service Service) (string, error) {
	if c.endpoints == nil {
		endpoints, err := c.catalog()
		if err != nil {
			return "", fmt.Errorf("looking for the endpoints: %w", err)
		}
		c.endpoints = endpoints
	}
	for _, name := range types[service].names {
		if c.endpoints[name] == severalRegions {
			return "", sdk.Error(abi.CodeInvalid, fmt.Sprintf("Keystone's catalog has the service %s in several regions; set [Global] region: a server of another region must not pass for one that is gone", service))
		}
		if address := c.endpoints[name]; address != "" {
			return versioned(address, types[service].version), nil
		}
	}
	return "", sdk.Error(abi.CodeInvalid, fmt.Sprintf("Keystone's catalog has no %s endpoint of the service %s in the region %q; check [Global] region and os-endpoint-type",
		c.config.EndpointType, service, c.config.Region))
}

func versioned(address, version string) string {
	address = strings.TrimRight(address, "/")
	if version == "" || strings.HasSuffix(address, version) {
		return address
	}
	return strings.TrimSuffix(strings.TrimSuffix(address, "/v2"), "/v2.0") + version
}

func (c *Client) catalog() (map[string]string, error) {
	endpoints := map[string]string{}
	kept, found, err := c.op.Cache().Get(catalogKey)
	if err == nil && found && json.Unmarshal(kept, &endpoints) == nil {
		return endpoints, nil
	}
	req := c.plain("GET", identity(c.config.AuthURL)+"/auth/catalog", nil)
	response, err := c.op.HTTP().Do(req)
	members, err := answer(req, sdk.HTTPResult{Response: response, Err: err})
	if err != nil {
		return nil, err
	}
	var services []service
	if err := member(req, members, "catalog", &services); err != nil {
		return nil, err
	}
	endpoints = c.choose(services)
	if encoded, err := json.Marshal(endpoints); err == nil {
		// The cache is optional: without it the catalog is read again.
		_ = c.op.Cache().Put(catalogKey, encoded, catalogLife)
	}
	return endpoints, nil
}

// identity is Keystone's URL with its version.
func identity(authURL string) string {
	return versioned(strings.TrimSuffix(strings.TrimRight(authURL, "/"), "/v2.0"), "/v3")
}

// severalRegions stands for the URL of a service with endpoints in several
// regions. With the first region, servers of the others would seem to be gone.
const severalRegions = "several regions"

type service struct {
	Type      string
	Endpoints []struct {
		Interface, URL, Region string
		RegionID               string `json:"region_id"`
	}
}

// choose takes the first endpoint of the region and the interface. Without a
// configured region, endpoints in several regions give severalRegions.
func (c *Client) choose(services []service) map[string]string {
	known := []string{}
	for _, t := range types {
		known = append(known, t.names...)
	}
	chosen, regions := map[string]string{}, map[string]string{}
	for _, s := range services {
		if !slices.Contains(known, s.Type) {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Interface != c.config.EndpointType || c.config.Region != "" && c.config.Region != e.Region && c.config.Region != e.RegionID {
				continue
			}
			region := cmp.Or(e.RegionID, e.Region)
			switch first, found := regions[s.Type]; {
			case !found:
				chosen[s.Type], regions[s.Type] = e.URL, region
			case c.config.Region == "" && first != region:
				chosen[s.Type] = severalRegions
			}
		}
	}
	return chosen
}
