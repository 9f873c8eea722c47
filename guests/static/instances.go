package main

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// InstanceNodeFields: other fields need not be decoded.
func (p *provider) InstanceNodeFields() []sdk.NodeField {
	return []sdk.NodeField{sdk.NodeName, sdk.NodeProviderID}
}

// find looks for the machine of a node: by provider ID, or by name if the node
// has none. nil means that the inventory, which is complete, does not have it.
// A provider ID with a scheme of no machine belongs to another cloud: an error,
// so that its Node is not deleted.
func (p *provider) find(node *abi.Node) (*machine, error) {
	if node.ProviderId == "" {
		if node.Name == "" {
			return nil, sdk.Invalidf("the node has neither a name nor a provider ID")
		}
		return p.inventory.byName[node.Name], nil
	}
	if m := p.inventory.byProviderID[node.ProviderId]; m != nil {
		return m, nil
	}
	if !p.inventory.schemes[schemeOf(node.ProviderId)] {
		return nil, sdk.Invalidf("node %s: the provider ID %s is of another cloud: no machine of the inventory has that scheme", node.Name, node.ProviderId)
	}
	return nil, nil
}

func (p *provider) InstanceExists(_ *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	m, err := p.find(node)
	switch {
	case err != nil:
		return 0, err
	case m == nil:
		return sdk.DoesNotExist, nil
	}
	return sdk.Exists, nil
}

// listed is find for ops that need a machine.
func (p *provider) listed(node *abi.Node) (*machine, error) {
	m, err := p.find(node)
	if err == nil && m == nil {
		err = sdk.InstanceNotFound("node " + node.Name + " (provider ID " + strconv.Quote(node.ProviderId) + ") is not in the inventory; list it under machines")
	}
	return m, err
}

func (p *provider) InstanceShutdown(_ *sdk.Op, node *abi.Node) (sdk.PowerState, error) {
	m, err := p.listed(node)
	if err != nil {
		return 0, err
	}
	return m.state(), nil
}

func (p *provider) InstanceMetadata(_ *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	m, err := p.listed(node)
	if err != nil {
		return nil, err
	}
	return &m.metadata, nil
}

// maxPage bounds a page, whatever the host asks for.
const maxPage = 500

// ListInstances answers pages in the inventory's order. The token is the index
// of the next machine.
func (p *provider) ListInstances(_ *sdk.Op, token string, size int) ([]*abi.Instance, string, error) {
	machines, start := p.inventory.machines, 0
	if token != "" {
		var err error
		if start, err = strconv.Atoi(token); err != nil || start < 0 || start > len(machines) {
			return nil, "", sdk.Invalidf("the page token %q is not one of this inventory", token)
		}
	}
	if size <= 0 || size > maxPage {
		size = maxPage
	}
	end := min(start+size, len(machines))
	page := make([]*abi.Instance, 0, end-start)
	for _, m := range machines[start:end] {
		page = append(page, &abi.Instance{NodeName: m.name, Metadata: &m.metadata, State: m.state()})
	}
	if end == len(machines) {
		return page, "", nil
	}
	return page, strconv.Itoa(end), nil
}
