package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

// parseInventory reads and checks a configuration. The error has line and
// reason for each of the first mistakes.
func parseInventory(config []byte) (*inventory, error) {
	if len(config) > maxInventoryBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(config), maxInventoryBytes)
	}
	root, err := yaml.Parse(config)
	if err != nil {
		return nil, err
	}
	if root.Kind == yaml.Null {
		return nil, errors.New("line 1: it is empty; list the machines under machines")
	}
	r := &reader{inventory: &inventory{
		byName: map[string]*machine{}, byProviderID: map[string]*machine{},
		schemes: map[string]bool{scheme: true}, regionOfZone: map[string]string{},
	}, addresses: map[string]*machine{}, zoneLines: map[string]int{}}
	r.root(root)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.inventory, nil
}

// reader makes an inventory from nodes and collects mistakes.
type reader struct {
	*inventory
	region    string              // the default
	zone      string              // the default
	addresses map[string]*machine // to find duplicates
	zoneLines map[string]int      // the place that set a zone's region
	blocks    []blockOfPool       // of all pools, to find overlaps
	// machineIPs must not be in the pools.
	machineIPs []machineIP
	errs       []error
}

type machineIP struct {
	ip      netip.Addr
	machine string
	line    int
}

// blockOfPool is a block and its place.
type blockOfPool struct {
	block
	pool string
	line int
}

func (r *reader) fail(line int, format string, args ...any) {
	switch {
	case len(r.errs) < maxErrors:
		r.errs = append(r.errs, &yaml.Error{Line: line, Reason: fmt.Sprintf(format, args...)})
	case len(r.errs) == maxErrors:
		r.errs = append(r.errs, errors.New("and more"))
	}
}

func (r *reader) root(root yaml.Node) {
	if !r.is(root, "the inventory", yaml.Map) {
		return
	}
	// Defaults first, wherever they are.
	for i := range root.Fields {
		switch f := &root.Fields[i]; f.Key {
		case "region":
			r.region = r.label(f)
		case "zone":
			r.zone = r.label(f)
		}
	}
	seen := false
	for i := range root.Fields {
		f := &root.Fields[i]
		switch f.Key {
		case "region", "zone":
		case "machines":
			seen = true
			r.readMachines(f)
		case "pools":
			r.readPools(f)
		case "routes":
			r.routes = r.boolean(f)
		case "volumes": // last: the rules name zones
		default:
			r.unknown(f, "region, zone, machines, pools, routes, volumes")
		}
	}
	if !seen {
		r.fail(root.Line, "the inventory has no machines: then no Node would exist")
	}
	r.checkMachines()
	for i := range root.Fields {
		if f := &root.Fields[i]; f.Key == "volumes" {
			r.readVolumes(f)
		}
	}
}

// ---- values ----------------------------------------------------------------

// is reports a value of another kind.
func (r *reader) is(n yaml.Node, what string, want yaml.Kind) bool {
	if n.Kind == want {
		return true
	}
	hint := ""
	if want == yaml.Text && (n.Kind == yaml.Number || n.Kind == yaml.Bool) {
		hint = "; put it into quotes"
	}
	r.fail(n.Line, "%s is %s, and must be %s%s", what, n.Kind, want, hint)
	return false
}

func (r *reader) unknown(f *yaml.Field, known string) {
	r.fail(f.Line, "%s is unknown here; there are %s", f.Key, known)
}

// list returns the items of a list, with at most that many.
func (r *reader) list(f *yaml.Field, most int) []yaml.Node {
	if !r.is(f.Value, f.Key, yaml.List) {
		return nil
	}
	if len(f.Value.Items) > most {
		r.fail(f.Line, "%s has %d entries, more than %d", f.Key, len(f.Value.Items), most)
		return nil
	}
	return f.Value.Items
}

// text returns a text, not empty.
func (r *reader) text(f *yaml.Field) string {
	if r.is(f.Value, f.Key, yaml.Text) && f.Value.Value == "" {
		r.fail(f.Line, "%s is empty", f.Key)
	}
	return f.Value.Value
}

func (r *reader) boolean(f *yaml.Field) bool {
	switch {
	case f.Value.Kind == yaml.Bool && f.Value.Value == "true":
		return true
	case f.Value.Kind == yaml.Bool && f.Value.Value == "false":
		return false
	}
	r.fail(f.Value.Line, "%s must be true or false", f.Key)
	return false
}

// label returns a text that can be the value of a label.
func (r *reader) label(f *yaml.Field) string {
	s := r.text(f)
	if f.Value.Kind == yaml.Text && s != "" && !isLabelValue(s) {
		r.fail(f.Value.Line, "%s: %q cannot be the value of a label: at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last", f.Key, s)
	}
	return s
}

func (r *reader) address(n yaml.Node, what string) netip.Addr {
	if !r.is(n, what, yaml.Text) {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(n.Value)
	switch {
	case err != nil:
		r.fail(n.Line, "%s: %q is not an IP address", what, n.Value)
	case a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsMulticast():
		r.fail(n.Line, "%s: %q cannot be the address of anything here", what, n.Value)
	default:
		return a
	}
	return netip.Addr{}
}

// ---- names -----------------------------------------------------------------

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isLabelValue(s string) bool {
	if len(s) > 63 || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// isDNSName reports whether a Node can have the name.
func isDNSName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	start := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		lower := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		last := i+1 == len(s) || s[i+1] == '.'
		if !lower && (c != '-' || start || last) && (c != '.' || start || i+1 == len(s)) {
			return false
		}
		start = c == '.'
	}
	return true
}

func quote(s string) string { return strconv.Quote(s) }
