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

// reserved is a subtree of DNS names that exist only in a cluster: all names below the name,
// and with prefix all that begin with it.
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

// Hostname returns nil, or an error if a load balancer must not have the name: an *Error if
// the administrator may allow it, another error if it is not a valid name. The API server
// accepts every name that passes.
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
	for label := range strings.SplitSeq(name, ".") {
		if strings.Trim(label, "-") != label {
			return fmt.Errorf("%s: a part begins or ends with '-'", text.Quote(name))
		}
	}
	// A machine may have this name, so a Node may, too.
	if name == "kubernetes" && !slices.Contains(p.allow.names, name) {
		return &Error{What: text.Quote(name), Why: "the API server's name, for pods of the namespace default", mend: name}
	}
	return p.name(name)
}

// NodeName is Hostname for the names among a Node's addresses. Names of machines may have
// capitals and '_', and may be addresses.
func (p *Policy) NodeName(name string) error {
	if strings.Trim(name, ".0123456789") == "" {
		if ip, err := netip.ParseAddr(name); err == nil {
			return p.IP(ip)
		}
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
		if r.has(name) && !slices.ContainsFunc(p.allow.names, func(entry string) bool { return below(name, entry) && r.has(entry) }) {
			return &Error{What: text.Quote(name), Why: r.why, mend: name}
		}
	}
	if readAsAddress(name) && !slices.Contains(p.allow.names, name) {
		return &Error{What: text.Quote(name), Why: "read as an IP address by some", mend: name}
	}
	return nil
}

// below reports whether a name equals the other or is below it.
func below(name, other string) bool {
	rest, ok := strings.CutSuffix(name, other)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

func lastLabel(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// nameSyntax checks for an ASCII name of at most 253 bytes without a trailing dot. Other
// alphabets have letters that resolvers convert to ASCII.
func nameSyntax(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(name), maxNameBytes)
	case strings.HasSuffix(name, "."):
		return fmt.Errorf("%s: leave out the dot at its end", text.Quote(name))
	}
	for label := range strings.SplitSeq(name, ".") {
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
	if strings.Count(name, ".") > 3 {
		return false
	}
	for label := range strings.SplitSeq(strings.ToLower(name), ".") {
		digits, all := label, "0123456789"
		if hex, ok := strings.CutPrefix(label, "0x"); ok {
			digits, all = hex, "0123456789abcdef"
		}
		if strings.Trim(digits, all) != "" {
			return false
		}
	}
	return true
}
