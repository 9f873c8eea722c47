package addresses

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of DNS, in bytes.
const (
	maxNameBytes  = 253
	maxLabelBytes = 63
)

// reserved is a part of the tree of names that nothing outside of the cluster
// has. All below the name belong to it; with prefix those that begin with it do.
type reserved struct {
	name, why string
	prefix    bool
}

func reservedNames() []reserved {
	all := []reserved{
		{name: "kubernetes.default", why: "the API server's name", prefix: true},
		{name: "svc", why: "a name of the cluster's Services"},
		{name: "pod", why: "a name of the cluster's pods"},
		{name: "cluster.local", why: "a name of the cluster's own"},
	}
	for _, name := range []string{"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"} {
		all = append(all, reserved{name: name, why: "it names a different machine on each reader"})
	}
	for _, name := range []string{"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.tencentyun.com"} {
		all = append(all, reserved{name: name, why: metadata})
	}
	return all
}

func (r reserved) has(name string) bool {
	return below(name, r.name) || r.prefix && strings.HasPrefix(name, r.name+".")
}

// Hostname returns nil, or an error where a load balancer must not have the
// name: an *Error if only the administrator can tell, any other if it is no
// name at all. The API server takes what passes.
func (p *Policy) Hostname(name string) error {
	switch {
	case name != strings.ToLower(name):
		return fmt.Errorf("%s: write it in lower case", text.Quote(name))
	case strings.Contains(name, "_"):
		return fmt.Errorf("%s has a character that is no letter, digit, '-' or '.'", text.Quote(name))
	case strings.Trim(lastLabel(name), "0123456789") == "" && name != "":
		return fmt.Errorf("%s is an IP address, or some software reads it as one: use ip", text.Quote(name))
	}
	if err := nameSyntax(name); err != nil {
		return err
	}
	for _, label := range strings.Split(name, ".") {
		if strings.Trim(label, "-") != label {
			return fmt.Errorf("%s: a part begins or ends with '-'", text.Quote(name))
		}
	}
	// A machine may be called so, so a Node's name may be it.
	if name == "kubernetes" && !slices.Contains(p.allow.names, name) {
		return &Error{What: text.Quote(name), Why: "the API server's name, for pods of the namespace default", mend: name}
	}
	return p.name(name)
}

// NodeName is Hostname for the names among a Node's addresses. Machines are
// called as they are called: with capitals, with '_', and by their address.
func (p *Policy) NodeName(name string) error {
	if ip, err := netip.ParseAddr(name); err == nil && ip.Is4() {
		return p.IP(ip)
	}
	if err := nameSyntax(name); err != nil {
		return err
	}
	return p.name(strings.ToLower(name))
}

func (p *Policy) name(name string) error {
	if i := slices.IndexFunc(p.deny.names, func(entry string) bool { return below(name, entry) }); i >= 0 {
		return &Error{What: text.Quote(name), Why: "denied by " + p.deny.names[i], denied: true}
	}
	for _, r := range p.names {
		opened := slices.ContainsFunc(p.allow.names, func(entry string) bool { return below(name, entry) && r.has(entry) })
		if r.has(name) && !opened {
			return &Error{What: text.Quote(name), Why: r.why, mend: name}
		}
	}
	if readAsAddress(name) && !slices.Contains(p.allow.names, name) {
		return &Error{What: text.Quote(name), Why: "read as an IP address by some", mend: name}
	}
	return nil
}

// below reports whether a name is the other or below it.
func below(name, other string) bool { return name == other || strings.HasSuffix(name, "."+other) }

func lastLabel(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// nameSyntax checks that a text is a name in ASCII of at most 253 bytes, without
// a dot at its end. Other alphabets have letters that resolvers take for ASCII.
func nameSyntax(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(name), maxNameBytes)
	case strings.HasSuffix(name, "."):
		return fmt.Errorf("%s: leave out the dot at its end", text.Quote(name))
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || len(label) > maxLabelBytes {
			return fmt.Errorf("%s: each part has 1 to %d characters", text.Quote(name), maxLabelBytes)
		}
		if i := strings.IndexFunc(label, func(r rune) bool { return !nameCharacter(r) }); i >= 0 {
			return fmt.Errorf("%s has a character that is no letter, digit, '-', '_' or '.'", text.Quote(name))
		}
	}
	return nil
}

func nameCharacter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// readAsAddress reports whether inet_aton takes the name for an IPv4 address:
// one to four numbers, each decimal, octal or hexadecimal.
func readAsAddress(name string) bool {
	labels := strings.Split(strings.ToLower(name), ".")
	return len(labels) <= 4 && !slices.ContainsFunc(labels, func(label string) bool {
		digits, hex := strings.CutPrefix(label, "0x")
		if hex {
			return strings.Trim(digits, "0123456789abcdef") != ""
		}
		return strings.Trim(digits, "0123456789") != ""
	})
}
