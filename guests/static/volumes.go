package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

// The labels of a volume.
const (
	labelZone   = "topology.kubernetes.io/zone"
	labelRegion = "topology.kubernetes.io/region"
)

// volumeRule sets the zone of some volumes.
type volumeRule struct {
	line int
	// Conditions on the volume; empty for none.
	source, driver, storageClass string
	// The zone itself, or its source.
	zone, zoneFrom string
	key            string // of zoneFrom attribute, label, annotation
	separator      string // of zoneFrom volumeID: the text after the zone
}

func (rule *volumeRule) matches(v *abi.Volume) bool {
	return (rule.source == "" || rule.source == v.Source) &&
		(rule.driver == "" || rule.driver == v.Driver) &&
		(rule.storageClass == "" || rule.storageClass == v.StorageClass)
}

// VolumeLabels tries the rules in order; the first with a zone decides.
func (p *provider) VolumeLabels(_ *sdk.Op, v *abi.Volume) (map[string]string, error) {
	for i := range p.inventory.volumes {
		rule := &p.inventory.volumes[i]
		if !rule.matches(v) {
			continue
		}
		zone, err := p.inventory.zoneOf(rule, v)
		if err != nil {
			return nil, err
		}
		if zone != "" {
			return p.inventory.labelsOf(rule, v, zone)
		}
	}
	return nil, nil
}

func (inv *inventory) labelsOf(rule *volumeRule, v *abi.Volume, zone string) (map[string]string, error) {
	region, known := inv.regionOfZone[zone]
	if !known {
		return nil, sdk.Invalidf("volume %s: its zone by the rule in line %d of the inventory is %q, and no machine is in such a zone", v.Name, rule.line, zone)
	}
	labels := map[string]string{labelZone: zone}
	if region != "" {
		labels[labelRegion] = region
	}
	return labels, nil
}

// zoneOf returns "" if the rule does not apply to the volume.
func (inv *inventory) zoneOf(rule *volumeRule, v *abi.Volume) (string, error) {
	switch rule.zoneFrom {
	case "":
		return rule.zone, nil
	case "node":
		return inv.zoneOfNodes(rule, v)
	case "attribute":
		return v.Attributes[rule.key], nil
	case "label":
		return v.Labels[rule.key], nil
	case "annotation":
		return v.Annotations[rule.key], nil
	}
	zone, _, found := strings.Cut(v.VolumeId, rule.separator)
	if !found {
		return "", nil
	}
	return zone, nil
}

// zoneOfNodes is the zone of the machines in the volume's node affinity; "" if
// there are several zones.
func (inv *inventory) zoneOfNodes(rule *volumeRule, v *abi.Volume) (string, error) {
	zone := ""
	for _, name := range v.NodeNames {
		m := inv.byName[name]
		switch {
		case m == nil:
			return "", sdk.Invalidf("volume %s: its node affinity names %s, which is not in the inventory (rule in line %d)", v.Name, name, rule.line)
		case zone != "" && m.metadata.Zone != zone:
			return "", nil
		}
		zone = m.metadata.Zone
	}
	return zone, nil
}

// ---- reading ---------------------------------------------------------------

func (r *reader) readVolumes(f *yaml.Field) {
	for _, n := range r.list(f, maxVolumeRules) {
		if r.is(n, "a rule for volumes", yaml.Map) {
			r.volumes = append(r.volumes, r.volumeRule(n))
		}
	}
}

func (r *reader) volumeRule(n yaml.Node) volumeRule {
	rule := volumeRule{line: n.Line}
	for i := range n.Fields {
		f := &n.Fields[i]
		switch f.Key {
		case "source":
			rule.source = r.text(f)
		case "driver":
			rule.driver = r.text(f)
		case "storageClass":
			rule.storageClass = r.text(f)
		case "zone":
			rule.zone = r.text(f)
			if _, known := r.regionOfZone[rule.zone]; !known && f.Value.Kind == yaml.Text {
				r.fail(f.Line, "zone: no machine is in zone %q", rule.zone)
			}
		case "zoneFrom":
			rule.zoneFrom = r.text(f)
		case "key":
			rule.key = r.text(f)
		case "separator":
			rule.separator = r.text(f)
		default:
			r.unknown(f, "source, driver, storageClass, zone, zoneFrom, key, separator")
		}
	}
	r.checkRule(&rule)
	return rule
}

func (r *reader) checkRule(rule *volumeRule) {
	needsKey, needsSeparator := false, false
	switch rule.zoneFrom {
	case "", "node":
	case "attribute", "label", "annotation":
		needsKey = true
	case "volumeID":
		needsSeparator = true
	default:
		r.fail(rule.line, "zoneFrom: %q is none of node, attribute, label, annotation, volumeID", rule.zoneFrom)
		return
	}
	if (rule.zone == "") == (rule.zoneFrom == "") {
		r.fail(rule.line, "a rule for volumes has either a zone or a zoneFrom")
	}
	if needsKey != (rule.key != "") {
		r.fail(rule.line, "key goes with zoneFrom attribute, label and annotation, which need it")
	}
	if needsSeparator != (rule.separator != "") {
		r.fail(rule.line, "separator goes with zoneFrom volumeID, which needs it")
	}
}
