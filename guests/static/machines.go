package main

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

func (r *reader) readMachines(f *yaml.Field) {
	items := r.list(f, maxMachines)
	if f.Value.Kind == yaml.List && len(f.Value.Items) == 0 {
		r.fail(f.Line, "machines is empty: then no Node would exist")
	}
	r.machines = make([]*machine, len(items))
	for i := range items {
		m := &machine{}
		r.machines[i] = m
		if r.is(items[i], "a machine", yaml.Map) {
			r.readMachine(m, items[i])
			r.index(m)
		}
	}
}

func (r *reader) readMachine(m *machine, n yaml.Node) {
	m.line = n.Line
	meta := &m.metadata
	meta.Zone, meta.Region = r.zone, r.region
	for i := range n.Fields {
		f := &n.Fields[i]
		switch f.Key {
		case "name":
			if m.name = r.text(f); f.Value.Kind == yaml.Text && !isDNSName(m.name) {
				r.fail(f.Line, "name: %q cannot be the name of a Node", m.name)
			}
		case "providerID":
			meta.ProviderId = r.providerID(f)
		case "type":
			meta.InstanceType = r.label(f)
		case "zone":
			meta.Zone = r.label(f)
		case "region":
			meta.Region = r.label(f)
		case "addresses":
			r.readAddresses(m, f)
		case "labels":
			r.readLabels(m, f)
		case "state":
			m.shutdown = r.state(f)
		default:
			r.unknown(f, "name, providerID, type, zone, region, addresses, labels, state")
		}
	}
	if len(meta.Addresses) == 0 {
		r.fail(n.Line, "machine %s has no addresses", m.name)
	}
}

// index makes the machine found by name and ID, and reports duplicates.
func (r *reader) index(m *machine) {
	if m.name == "" {
		r.fail(m.line, "a machine has no name")
		return
	}
	if other := r.byName[m.name]; other != nil {
		r.fail(m.line, "machine %s is in line %d, too", m.name, other.line)
		return
	}
	r.byName[m.name] = m
	meta := &m.metadata
	if meta.ProviderId == "" {
		meta.ProviderId = scheme + "://" + m.name
	}
	if other := r.byProviderID[meta.ProviderId]; other != nil {
		r.fail(m.line, "the provider ID %s is that of machine %s in line %d, too", meta.ProviderId, other.name, other.line)
		return
	}
	r.byProviderID[meta.ProviderId] = m
	r.schemes[schemeOf(meta.ProviderId)] = true
	if meta.Zone == "" {
		return
	}
	if region, known := r.regionOfZone[meta.Zone]; !known {
		r.regionOfZone[meta.Zone], r.zoneLines[meta.Zone] = meta.Region, m.line
	} else if region != meta.Region {
		r.fail(m.line, "zone %s is in region %s here and in region %s in line %d; one zone has one region", meta.Zone, quote(meta.Region), quote(region), r.zoneLines[meta.Zone])
	}
}

func (r *reader) providerID(f *yaml.Field) string {
	id := r.text(f)
	s := schemeOf(id)
	if f.Value.Kind == yaml.Text && (s == "" || len(id) == len(s)+3 || len(id) > 512 || strings.ContainsAny(id, " \n\r\t") || !isDNSName(s)) {
		r.fail(f.Value.Line, "providerID: %q must be SCHEME://ID, without spaces", id)
	}
	return id
}

func (r *reader) state(f *yaml.Field) (shutdown bool) {
	switch r.text(f) {
	case "running":
	case "shutdown":
		return true
	default:
		if f.Value.Kind == yaml.Text {
			r.fail(f.Value.Line, "state: %q is neither running nor shutdown", f.Value.Value)
		}
	}
	return false
}

func (r *reader) readLabels(m *machine, f *yaml.Field) {
	if !r.is(f.Value, f.Key, yaml.Map) {
		return
	}
	if len(f.Value.Fields) > maxLabels {
		r.fail(f.Line, "machine %s has more than %d labels", m.name, maxLabels)
		return
	}
	m.metadata.AdditionalLabels = make(map[string]string, len(f.Value.Fields))
	for i := range f.Value.Fields {
		label := &f.Value.Fields[i]
		if reason := refusedLabel(label.Key); reason != "" {
			r.fail(label.Line, "the label %q %s", label.Key, reason)
		}
		if r.is(label.Value, label.Key, yaml.Text) && label.Value.Value != "" && !isLabelValue(label.Value.Value) {
			r.fail(label.Line, "%q cannot be the value of the label %s", label.Value.Value, label.Key)
		}
		m.metadata.AdditionalLabels[label.Key] = label.Value.Value
	}
}

// refusedLabel says why a machine cannot have a label.
func refusedLabel(key string) string {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	switch {
	case name == "" || !isLabelValue(name) || found && !isDNSName(prefix):
		return "is not the name of a label"
	case prefix == "k8s.io" || prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".k8s.io") || strings.HasSuffix(prefix, ".kubernetes.io"):
		return "belongs to Kubernetes, which would drop it; zone, region and type are fields of a machine"
	}
	return ""
}

var addressTypes = [...]struct {
	name  string
	value abi.AddressType
}{
	{"InternalIP", abi.AddressType_ADDRESS_TYPE_INTERNAL_IP},
	{"ExternalIP", abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP},
	{"Hostname", abi.AddressType_ADDRESS_TYPE_HOSTNAME},
	{"InternalDNS", abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS},
	{"ExternalDNS", abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS},
}

func (r *reader) readAddresses(m *machine, f *yaml.Field) {
	items := r.list(f, maxAddresses)
	m.metadata.Addresses = make([]*abi.NodeAddress, 0, len(items))
	for i := range items {
		if r.is(items[i], "an address", yaml.Map) {
			m.metadata.Addresses = append(m.metadata.Addresses, r.nodeAddress(m, items[i]))
		}
	}
}

func (r *reader) nodeAddress(m *machine, n yaml.Node) *abi.NodeAddress {
	a := &abi.NodeAddress{}
	var value yaml.Node
	for i := range n.Fields {
		f := &n.Fields[i]
		switch f.Key {
		case "type":
			a.Type = r.addressType(f)
		case "address":
			value = f.Value
		default:
			r.unknown(f, "type, address")
		}
	}
	switch a.Type {
	case abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP:
		if ip := r.address(value, "address"); ip != (netip.Addr{}) {
			a.Address = ip.String()
			r.unique(m, a, value.Line)
			r.machineIPs = append(r.machineIPs, machineIP{ip, m.name, value.Line})
		}
	case abi.AddressType_ADDRESS_TYPE_UNSPECIFIED:
		if !hasField(n, "type") {
			r.fail(n.Line, "an address has no type: InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS")
		}
	default:
		a.Address = value.Value
		if r.is(value, "address", yaml.Text) && !isDNSName(strings.ToLower(a.Address)) {
			r.fail(value.Line, "address: %q is not a host name", a.Address)
		}
	}
	return a
}

// unique reports an IP of two machines, or a duplicate of the same type.
func (r *reader) unique(m *machine, a *abi.NodeAddress, line int) {
	other := r.addresses[a.Address]
	switch {
	case other == nil:
		r.addresses[a.Address] = m
	case other != m:
		r.fail(line, "address %s is that of machine %s in line %d, too", a.Address, other.name, other.line)
	default:
		for _, before := range m.metadata.Addresses {
			if before.Address == a.Address && before.Type == a.Type {
				r.fail(line, "address %s stands twice", a.Address)
			}
		}
	}
}

func hasField(n yaml.Node, key string) bool {
	return slices.ContainsFunc(n.Fields, func(f yaml.Field) bool { return f.Key == key })
}

func (r *reader) addressType(f *yaml.Field) abi.AddressType {
	name := r.text(f)
	for _, t := range addressTypes {
		if t.name == name {
			return t.value
		}
	}
	if f.Value.Kind == yaml.Text {
		r.fail(f.Value.Line, "type: %q is none of InternalIP, ExternalIP, Hostname, InternalDNS, ExternalDNS", name)
	}
	return abi.AddressType_ADDRESS_TYPE_UNSPECIFIED
}
