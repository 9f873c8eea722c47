package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Limits of an inventory. They bound the time and memory that each instance
// spends on a configuration.
const (
	maxInventoryBytes = 2 << 20
	maxMachines       = 10000
	maxAddresses      = 16 // of one machine
	maxLabels         = 32 // of one machine
	maxPools          = 64
	maxBlocks         = 64 // of one pool
	maxVolumeRules    = 64
	maxErrors         = 10 // that are reported together
)

// scheme is the scheme of provider IDs made from machines' names.
const scheme = "static"

// inventory is a checked configuration.
type inventory struct {
	machines     []*machine
	byName       map[string]*machine
	byProviderID map[string]*machine
	schemes      map[string]bool   // of the provider IDs, and "static"
	regionOfZone map[string]string // of all zones of machines
	hasPools     bool              // true even if the list is empty
	pools        []pool
	routes       bool
	volumes      []volumeRule
	warnings     []string
}

// machine is ready for answers: its metadata is made once.
type machine struct {
	name     string
	line     int
	shutdown bool
	metadata abi.InstanceMetadata
}

// state is the state in list_instances.
func (m *machine) state() abi.PowerState {
	if m.shutdown {
		return abi.PowerState_POWER_STATE_SHUTDOWN
	}
	return abi.PowerState_POWER_STATE_ON
}

// schemeOf returns the part before ://, or "".
func schemeOf(providerID string) string {
	s, _, found := strings.Cut(providerID, "://")
	if !found {
		return ""
	}
	return s
}
