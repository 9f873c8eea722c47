package addresses

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// FuzzReaders: what is taken here is read the same by every other reader, and
// is taken by the API server.
func FuzzReaders(f *testing.F) {
	for _, seed := range words(`10.0.0.1 010.0.0.1 ::ffff:10.0.0.1 2001:DB8::1 fe80::1%eth0 127.1 0x7f.1 64:ff9b::7f00:1 2002:7f00:1::
		10.0.0.0/8 10.0.0.5/24 fd00::/8 ::ffff:0:0/96 0.0.0.0/0 localhost a.svc 1.2.3.4. *.a xn--a kubernetes.default`) {
		f.Add(seed)
	}
	p, err := New([]string{"localhost", "127.0.0.0/8", "::1/128"}, []string{"192.0.2.0/24", "example.com"})
	if err != nil {
		f.Fatal(err)
	}
	p = p.WithServiceCIDRs(serviceCIDRs())
	f.Fuzz(func(t *testing.T, text string) {
		fuzzIP(t, p, text)
		fuzzCIDR(t, text)
		fuzzNames(t, p, text)
	})
}

func fuzzIP(t *testing.T, p *Policy, text string) {
	ip, err := ParseIP(text)
	if err != nil {
		return
	}
	path := field.NewPath("ip")
	for _, other := range []net.IP{net.ParseIP(text), netutils.ParseIPSloppy(text)} {
		if read, ok := netip.AddrFromSlice(other); !ok || read.Unmap() != ip {
			t.Fatalf("%q is %s here, and %v to another reader", text, ip, other)
		}
	}
	if errs := validation.IsValidIP(path, ip.String()); len(errs) > 0 {
		t.Fatalf("%q becomes %s: %v", text, ip, errs.ToAggregate())
	}
	if p.IP(ip) != nil {
		return
	}
	// The API server's own rules for addresses that steer traffic, but for what
	// is allowed here.
	if read := net.ParseIP(ip.String()); !read.IsLoopback() && !read.IsGlobalUnicast() {
		t.Fatalf("%q is taken", text)
	}
	for _, services := range serviceCIDRs() {
		if services.Contains(ip) {
			t.Fatalf("%q is taken, of the Services", text)
		}
	}
}

func fuzzCIDR(t *testing.T, text string) {
	prefix, err := ParseCIDR(text)
	if err != nil {
		return
	}
	_, network, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	_, sloppy, err := netutils.ParseCIDRSloppy(text)
	if err != nil || sloppy.String() != network.String() || network.String() != prefix.String() {
		t.Fatalf("%q is %s here, %s to net, %s to Kubernetes", text, prefix, network, sloppy)
	}
}

func fuzzNames(t *testing.T, p *Policy, text string) {
	if p.Hostname(text) == nil {
		if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 || netutils.ParseIPSloppy(text) != nil {
			t.Fatalf("the API server refuses the hostname %q: %v", text, problems)
		}
	}
	if p.NodeName(text) != nil {
		return
	}
	for _, end := range []string{".", ".svc", ".cluster.local"} {
		if strings.HasSuffix(strings.ToLower(text), end) {
			t.Fatalf("the name %q is taken", text)
		}
	}
	// What some resolver reads as an address is one that was looked at.
	if ip := netutils.ParseIPSloppy(text); ip != nil {
		if read, err := ParseIP(text); err != nil || p.IP(read) != nil {
			t.Fatalf("the name %q is taken, and read as %v", text, ip)
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) || text == "" {
		t.Fatalf("the name %q is taken", text)
	}
}

// FuzzEntries: a list that is taken opens what it names and nothing besides.
func FuzzEntries(f *testing.F) {
	f.Add("127.0.0.0/8", "127.0.0.1")
	f.Add("0.0.0.0/0", "224.0.0.1")
	f.Add("localhost", "LOCALHOST")
	f.Fuzz(func(t *testing.T, entry, text string) {
		p, err := New([]string{entry}, nil)
		if err != nil {
			return
		}
		denied, err := New(nil, []string{entry})
		if err != nil {
			t.Fatalf("allow takes %q, deny: %v", entry, err)
		}
		network, name, _ := ParseEntry(entry)
		if ip, err := ParseIP(text); err == nil {
			opened := p.IP(ip) == nil && Default().IP(ip) != nil
			if opened && (name != "" || !network.Contains(ip) && !translated(p, ip, network)) {
				t.Fatalf("%q opens %q", entry, text)
			}
			if name == "" && network.Contains(ip) && denied.IP(ip) == nil {
				t.Fatalf("deny %q takes %q", entry, text)
			}
		}
		if p.NodeName(text) == nil && Default().NodeName(text) != nil && name == "" && !network.IsValid() {
			t.Fatalf("%q opens the name %q", entry, text)
		}
		if name != "" && below(strings.ToLower(text), name) && denied.NodeName(text) == nil {
			t.Fatalf("deny %q takes the name %q", entry, text)
		}
	})
}

func translated(p *Policy, ip netip.Addr, network netip.Prefix) bool {
	for _, meant := range append(p.translated(ip), ip) {
		if network.Contains(meant) {
			return true
		}
	}
	return false
}
