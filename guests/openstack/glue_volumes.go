package main

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/volumes"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// VolumeLabels is part of sdk.VolumeLabels.
func (p *provider) VolumeLabels(op *sdk.Op, volume *abi.Volume) (map[string]string, error) {
	return volumes.Labels(p.client(op), p.config, volume)
}
