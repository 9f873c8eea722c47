// Command example is a whole provider, for guests/README.md and as a start for
// a new one. Its cloud is a REST API with one resource: GET
// https://api.example.com/v1/servers/NAME.
package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/rest"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

const scheme = "example://"

type provider struct{ url string }

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "example", Version: version, ProviderName: "example"}
}

// Configure takes the API's URL; https://api.example.com/v1 by default.
func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	p.url = strings.TrimSuffix(strings.TrimSpace(string(config.Bytes)), "/")
	if p.url == "" {
		p.url = "https://api.example.com/v1"
	}
	if !strings.HasPrefix(p.url, "https://") && !strings.HasPrefix(p.url, "http://") {
		return sdk.Configured{}, sdk.Invalidf("line 1: %q is not the URL of an API: it must begin with https:// or http://", p.url)
	}
	return sdk.Configured{}, nil
}

func (p *provider) Probe(op *sdk.Op) (string, error) {
	_, _, err := rest.Page[server](p.api(op), "/servers?limit=1", rest.Paging{}, "")
	return "the API at " + p.url + " answers", err
}

func (p *provider) api(op *sdk.Op) *rest.Client { return rest.New(op, p.url, "api-token") }

func (p *provider) InstanceExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	_, found, err := p.server(op, node)
	if err != nil {
		return 0, err
	}
	if !found {
		return sdk.DoesNotExist, nil
	}
	return sdk.Exists, nil
}

func (p *provider) InstanceShutdown(op *sdk.Op, node *abi.Node) (sdk.PowerState, error) {
	server, found, err := p.server(op, node)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, sdk.InstanceNotFound("there is no server " + node.Name)
	case server.Status == "off":
		return sdk.Shutdown, nil
	}
	return sdk.On, nil
}

func (p *provider) InstanceMetadata(op *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	server, found, err := p.server(op, node)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, sdk.InstanceNotFound("there is no server " + node.Name)
	}
	return &abi.InstanceMetadata{
		ProviderId:   scheme + server.Name,
		InstanceType: server.Type,
		Zone:         server.Zone,
		Addresses:    []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: server.IP}},
	}, nil
}

// server is a server in the API.
type server struct{ Name, Type, Zone, IP, Status string }

// server finds the server of a node. Only the API's own 404 means that it does
// not exist, and only an answer with its name counts: a proxy in between may
// answer 200 as well.
func (p *provider) server(op *sdk.Op, node *abi.Node) (s server, found bool, err error) {
	name := node.Name
	if node.ProviderId != "" {
		var ours bool
		if name, ours = strings.CutPrefix(node.ProviderId, scheme); !ours {
			return s, false, sdk.Invalidf("the provider ID %s is not of this cloud", node.ProviderId)
		}
	}
	path := "/servers/" + rest.Segment(name)
	err = p.api(op).Get(path, &s)
	switch {
	case rest.IsNotFound(err):
		return s, false, nil
	case err == nil && s.Name != name:
		err = sdk.Error(abi.CodeInternal, "the API's answer to GET "+path+" is not that server")
	}
	return s, err == nil, err
}
