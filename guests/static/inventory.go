package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Limits of an inventory. They bound what one configuration costs each
// instance in time and memory.
const (
	maxInventoryBytes = 2 << 20
	maxMachines       = 10000
	maxAddresses      = 16 // of one machine
	maxLabels         = 32 // of one machine
	maxPools          = 64
	maxBlocks         = 64 // of one pool
	maxVolumeRules    = 64
	maxErrors         = 10 // that are said at once
)

// scheme is that of the provider IDs that are made of a machine's name.
const scheme = "static"

// inventory is a configuration that has been checked.
type inventory struct {
	machines     []*machine
	byName       map[string]*machine
	byProviderID map[string]*machine
	schemes      map[string]bool   // of the provider IDs, and "static"
	regionOfZone map[string]string // of all zones of machines
	hasPools     bool              // also when the list is empty
	pools        []pool
	routes       bool
	volumes      []volumeRule
	warnings     []string
}

// machine is ready to be answered with: metadata is made once.
type machine struct {
	name     string
	line     int
	shutdown bool
	metadata abi.InstanceMetadata
}

// state is that of list_instances.
func (m *machine) state() abi.PowerState {
	if m.shutdown {
		return abi.PowerState_POWER_STATE_SHUTDOWN
	}
	return abi.PowerState_POWER_STATE_ON
}

// schemeOf returns what stands before ://, or nothing.
func schemeOf(providerID string) string {
	s, _, found := strings.Cut(providerID, "://")
	if !found {
		return ""
	}
	return s
}
