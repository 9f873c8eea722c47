// Package manifest reads and writes the custom section "ccm.manifest", in
// which a guest says what it is and what it needs before anything of it is
// compiled or run. The section is one JSON object.
//
// Guests do not need the package at run time: a build step appends the section
// to the finished module (Append).
package manifest

// Manifest is the content of the section.
type Manifest struct {
	// Name is the guest's name, a DNS label. The host's durable store is kept
	// under it, so it does not change between versions.
	Name string `json:"name"`
	// Version is the guest's own version, for people; at most 64 bytes.
	Version string `json:"version"`
	// ABI is the range of ABI versions that the guest can speak.
	ABI Range `json:"abi"`
	// Ops are the names of the ops that the guest implements, besides
	// describe, configure and probe, which every guest has.
	Ops []string `json:"ops"`
	// Capabilities are the capability imports of the module, by name.
	Capabilities []string `json:"capabilities,omitempty"`
	// Hosts are the URL prefixes that http_send is meant for. They ask; the
	// administrator's configuration grants.
	Hosts []string `json:"hosts,omitempty"`
	// Credentials are the names that HttpRequest.credential may have.
	Credentials []string `json:"credentials,omitempty"`
	// ConfigSchema is a JSON schema of the configuration, or nil.
	ConfigSchema any `json:"configSchema,omitempty"`
	// Limits are suggestions; the administrator's limits hold.
	Limits Limits `json:"limits,omitzero"`
}

// Range is a range of ABI versions, both ends included.
type Range struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// Limits suggests limits; 0 leaves it to the host.
type Limits struct {
	MemoryBytes uint64 `json:"memoryBytes,omitempty"`
	Instances   int    `json:"instances,omitempty"`
}
