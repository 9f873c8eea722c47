package main

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/instances"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) instances(op *sdk.Op) *instances.Instances {
	return instances.New(p.client(op), p.config)
}

// InstanceNodeFields: other fields need not be decoded.
func (p *provider) InstanceNodeFields() []sdk.NodeField {
	return []sdk.NodeField{sdk.NodeName, sdk.NodeProviderID}
}

func (p *provider) InstanceExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	return p.instances(op).Exists(node)
}

func (p *provider) InstanceShutdown(op *sdk.Op, node *abi.Node) (sdk.PowerState, error) {
	return p.instances(op).Shutdown(node)
}

func (p *provider) InstanceMetadata(op *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	return p.instances(op).Metadata(node)
}

func (p *provider) ListInstances(op *sdk.Op, token string, size int) ([]*abi.Instance, string, error) {
	return p.instances(op).List(token, size)
}
