// Package instances finds the servers of Nodes in Nova, and their addresses in
// Nova and Neutron: existence, power state, metadata, and pages of all servers.
//
// A Node gets the same values as from cloud-provider-openstack. RATIONALE.md
// has the differences.
package instances

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Instances serves one op.
type Instances struct {
	client *api.Client
	config *cloudconf.Config
}

// New returns the instances of the client's cloud. It sends nothing.
func New(client *api.Client, config *cloudconf.Config) *Instances {
	return &Instances{client: client, config: config}
}

// Exists answers DoesNotExist only if Nova says that it has no server with the
// ID in the provider ID. A Node without a provider ID and without a server of
// its name is an error. 1 call.
func (i *Instances) Exists(node *abi.Node) (sdk.Existence, error) {
	if node.ProviderId == "" {
		if _, err := i.findByName(node); err != nil {
			return 0, nameIsNoProof(err)
		}
		return sdk.Exists, nil
	}
	_, err := i.findByID(node)
	switch {
	case sdk.CodeOf(err) == abi.CodeInstanceNotFound:
		return sdk.DoesNotExist, nil
	case err != nil:
		return 0, err
	}
	return sdk.Exists, nil
}

// nameIsNoProof: the absence of a server's name deletes no Node.
func nameIsNoProof(err error) error {
	if sdk.CodeOf(err) != abi.CodeInstanceNotFound {
		return err
	}
	return sdk.Invalidf("%v; this does not prove that its machine is gone: the Node stays until somebody deletes it or sets its provider ID", err)
}

// Shutdown answers InstanceNotFound for a missing server. 1 call.
func (i *Instances) Shutdown(node *abi.Node) (sdk.PowerState, error) {
	s, err := i.find(node)
	if err != nil {
		return 0, err
	}
	return s.power(), nil
}

// Metadata answers InstanceNotFound for a missing server. 2 calls, in parallel
// if the Node has a provider ID; 2 more if a port is the parent of a trunk, 1
// more if the flavor's name cannot be a label.
func (i *Instances) Metadata(node *abi.Node) (*abi.InstanceMetadata, error) {
	s, ports, err := i.findWithPorts(node)
	if err != nil {
		return nil, err
	}
	d, err := i.details([]*server{s}, ports, func() ([]*server, error) { return i.oldServer(s.ID) })
	if err != nil {
		return nil, err
	}
	m, err := i.describe(s, d)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return m, nil
}

func (i *Instances) findWithPorts(node *abi.Node) (*server, []*port, error) {
	if node.ProviderId == "" {
		s, err := i.findByName(node)
		if err != nil {
			return nil, nil, err
		}
		ports, err := i.portsOf(s)
		return s, ports, err
	}
	id, err := i.serverID(node)
	if err != nil {
		return nil, nil, err
	}
	found, ports := &server{}, []*port{}
	byID, ofID := serverRead(id, found), portsRead(&ports, id)
	errs := i.client.Reads(byID, ofID)
	if err := checkFound(node, id, found, errs[0]); err != nil {
		return nil, nil, err
	}
	if errs[1] != nil {
		return nil, nil, errs[1]
	}
	ports, err = rest(i.client, ports, ofID)
	return found, ports, err
}
