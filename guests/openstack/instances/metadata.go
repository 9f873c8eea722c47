package instances

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// details is what the metadata of servers needs besides Nova's answer.
type details struct {
	ports    map[string][]*port // of servers
	subports map[string]*port
	networks map[string]string // names, of subports
	flavors  map[string]string // IDs, of servers whose flavor's name cannot be a label
}

// details reads what these servers need. old lists them with Nova's old
// microversion, and is called only if a flavor needs it.
func (i *Instances) details(servers []*server, ports []*port, old func() ([]*server, error)) (*details, error) {
	d := &details{ports: map[string][]*port{}, flavors: map[string]string{}}
	for _, p := range ports {
		d.ports[p.DeviceID] = append(d.ports[p.DeviceID], p)
	}
	var err error
	if d.subports, err = i.subports(ports); err != nil {
		return nil, fmt.Errorf("subports of a trunk: %w", err)
	}
	if d.networks, err = i.networkNames(d.subports); err != nil {
		return nil, fmt.Errorf("networks of a trunk's subports: %w", err)
	}
	for _, s := range servers {
		if s.Flavor.ID != "" || s.Flavor.Name != "" && isLabel(s.Flavor.Name) {
			continue
		}
		return d, d.readFlavors(old)
	}
	return d, nil
}

func (d *details) readFlavors(old func() ([]*server, error)) error {
	servers, err := old()
	if err != nil {
		return fmt.Errorf("a flavor's name cannot be a label, and its ID is not known: %w", err)
	}
	if err := checkAll(servers); err != nil {
		return err
	}
	for _, s := range servers {
		d.flavors[s.ID] = s.Flavor.ID
	}
	return nil
}

// describe makes the metadata of one server. It makes no calls, so a server
// looks the same alone and in a list.
func (i *Instances) describe(s *server, d *details) (*abi.InstanceMetadata, error) {
	addresses, err := i.addresses(s, d)
	if err != nil {
		return nil, fmt.Errorf("server %s (%s): %w", s.ID, s.Status, err)
	}
	m := &abi.InstanceMetadata{
		ProviderId: i.providerID(s.ID), InstanceType: d.instanceType(s), Addresses: addresses,
		Zone: label(s.Zone), Region: label(i.config.Global.Region),
	}
	if m.InstanceType == "" {
		return nil, sdk.Error(abi.CodeInternal, fmt.Sprintf("server %s (%s): the cloud does not say its flavor", s.ID, s.Status))
	}
	return m, nil
}

// instanceType is the flavor's name, or its ID if the name cannot be a label.
func (d *details) instanceType(s *server) string {
	if isLabel(s.Flavor.Name) && s.Flavor.Name != "" {
		return s.Flavor.Name
	}
	if s.Flavor.ID != "" {
		return label(s.Flavor.ID)
	}
	return label(d.flavors[s.ID])
}

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 63

// label makes the value of a label: a "-" replaces each run of other
// characters, and it begins and ends with a letter or a digit.
func label(text string) string {
	var b strings.Builder
	replaced := false
	for _, c := range []byte(text) {
		if isLabelByte(c) {
			b.WriteByte(c)
		} else if !replaced {
			b.WriteByte('-')
		}
		replaced = !isLabelByte(c)
	}
	value := strings.Trim(b.String(), "-_.")
	return strings.TrimRight(value[:min(len(value), maxLabel)], "-_.")
}

// isLabel reports whether a text is already the value of a label.
func isLabel(text string) bool { return label(text) == text }

func isLabelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
