package manifest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Limits of the fields of a manifest.
const (
	MaxVersionBytes = 64
	MaxHosts        = 64
	MaxHostBytes    = 512
	MaxCredentials  = 64
	MaxInstances    = 1024
)

// maxMemoryBytes is all that a 32-bit linear memory can address.
const maxMemoryBytes = 4 << 30

func (m *Manifest) validate() error {
	return errors.Join(
		m.validateName(),
		m.validateVersion(),
		m.validateABI(),
		m.validateOps(),
		m.validateCapabilities(),
		m.validateHosts(),
		m.validateCredentials(),
		m.validateConfigSchema(),
		m.validateLimits(),
	)
}

func (m *Manifest) validateName() error {
	if !isDNSLabel(m.Name) {
		return fmt.Errorf("$.name: %.80q is not a DNS label, use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends", m.Name)
	}
	return nil
}

func (m *Manifest) validateVersion() error {
	if m.Version == "" || len(m.Version) > MaxVersionBytes {
		return fmt.Errorf("$.version: it has %d bytes, use 1 to %d", len(m.Version), MaxVersionBytes)
	}
	// It stands in logs, Events and labels of metrics.
	if strings.ContainsFunc(m.Version, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("$.version: %q has white space, control characters or others that are not ASCII, use none", m.Version)
	}
	return nil
}

func (m *Manifest) validateABI() error {
	if m.ABI.Min == 0 {
		return errors.New("$.abi.min: it is missing or 0, set it to the lowest ABI version that the guest speaks, 1 or more")
	}
	if m.ABI.Max < m.ABI.Min {
		return fmt.Errorf("$.abi.max: %d is below min %d, set it to the highest ABI version that the guest speaks", m.ABI.Max, m.ABI.Min)
	}
	return nil
}

func (m *Manifest) validateOps() error {
	if m.Ops == nil {
		return errors.New("$.ops: it is missing, list the ops that the guest implements besides describe, configure and probe")
	}
	for i, name := range m.Ops {
		at := fmt.Sprintf("$.ops[%d]", i)
		op, ok := abi.ParseOp(name)
		switch {
		case !ok:
			return fmt.Errorf("%s: unknown op %.80q, use names from abi/SPEC.md: %s", at, name, strings.Join(optionalOps(), ", "))
		case op.Group() == abi.GroupLoading:
			return fmt.Errorf("%s: every guest has %s, remove it", at, name)
		case slices.Contains(m.Ops[:i], name):
			return fmt.Errorf("%s: %s stands twice, remove one", at, name)
		}
	}
	return nil
}

func optionalOps() []string {
	var names []string
	for _, op := range abi.Ops() {
		if op.Group() != abi.GroupLoading {
			names = append(names, op.String())
		}
	}
	return names
}

func (m *Manifest) validateCapabilities() error {
	known := abi.Capabilities()
	for i, name := range m.Capabilities {
		at := fmt.Sprintf("$.capabilities[%d]", i)
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: unknown capability %.80q, use %s", at, name, strings.Join(known, ", "))
		}
		if slices.Contains(m.Capabilities[:i], name) {
			return fmt.Errorf("%s: %s stands twice, remove one", at, name)
		}
	}
	return nil
}

func (m *Manifest) validateHosts() error {
	if len(m.Hosts) > MaxHosts {
		return fmt.Errorf("$.hosts: it has %d entries, use at most %d", len(m.Hosts), MaxHosts)
	}
	for i, host := range m.Hosts {
		at := fmt.Sprintf("$.hosts[%d]", i)
		if err := validateHost(host); err != nil {
			return fmt.Errorf("%s: %.80q %w", at, host, err)
		}
		if slices.Contains(m.Hosts[:i], host) {
			return fmt.Errorf("%s: %q stands twice, remove one", at, host)
		}
	}
	return nil
}

func validateHost(host string) error {
	if len(host) > MaxHostBytes {
		return fmt.Errorf("has %d bytes, use at most %d", len(host), MaxHostBytes)
	}
	u, err := url.Parse(host)
	switch {
	case err != nil:
		return errors.New("is not a URL, write it like https://api.example.com/v1/")
	case u.Scheme != "https" && u.Scheme != "http", u.Opaque != "":
		return errors.New("does not start with https:// or http://, write it like https://api.example.com/v1/")
	case u.Hostname() == "" || strings.Contains(u.Host, "*"):
		return errors.New("has no exact host, write it like https://api.example.com/v1/")
	case u.User != nil:
		return errors.New("has a user or password, remove it and name a credential instead")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(host, "#"):
		return errors.New("has a query or fragment, remove it: only scheme, host, port and path are compared")
	}
	return nil
}

func (m *Manifest) validateCredentials() error {
	if len(m.Credentials) > MaxCredentials {
		return fmt.Errorf("$.credentials: it has %d entries, use at most %d", len(m.Credentials), MaxCredentials)
	}
	for i, name := range m.Credentials {
		at := fmt.Sprintf("$.credentials[%d]", i)
		if !isDNSLabel(name) {
			return fmt.Errorf("%s: %.80q is not a DNS label, use 1 to 63 of a-z, 0-9 and -", at, name)
		}
		if slices.Contains(m.Credentials[:i], name) {
			return fmt.Errorf("%s: %s stands twice, remove one", at, name)
		}
	}
	return nil
}

func (m *Manifest) validateConfigSchema() error {
	switch m.ConfigSchema.(type) {
	case nil, bool, map[string]any: // what a JSON schema can be
		return nil
	}
	return errors.New("$.configSchema: it is not a JSON schema, write an object or leave it out")
}

func (m *Manifest) validateLimits() error {
	if m.Limits.MemoryBytes > maxMemoryBytes {
		return fmt.Errorf("$.limits.memoryBytes: %d is more than a guest can address, use at most %d", m.Limits.MemoryBytes, uint64(maxMemoryBytes))
	}
	if m.Limits.Instances < 0 || m.Limits.Instances > MaxInstances {
		return fmt.Errorf("$.limits.instances: %d is out of range, use 1 to %d, or leave it out", m.Limits.Instances, MaxInstances)
	}
	return nil
}

// isDNSLabel is RFC 1123's label in lower case, as Kubernetes takes it.
func isDNSLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
