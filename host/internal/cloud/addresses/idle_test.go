package addresses

import (
	"net/netip"
	"slices"
	"testing"
)

// decisions are what a policy says of an entry: of its first and its last
// address, of itself as a destination, or of it as a name.
func decisions(p *Policy, entry string) (all []bool) {
	network, err := netip.ParsePrefix(entry)
	if err != nil {
		return []bool{p.Hostname(entry) == nil, p.NodeName(entry) == nil, p.Hostname("a."+entry) == nil}
	}
	first := network.Addr()
	all = []bool{p.IP(first) == nil, p.Destination(network) == nil, p.IP(first.Next()) == nil}
	return append(all, p.Destination(netip.PrefixFrom(first, first.BitLen())) == nil)
}

// What is said to open nothing does change nothing, and the other way round.
func TestIdleEntriesOpenNothing(t *testing.T) {
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	deny := []string{"169.254.7.0/24", "corp.example.com"}
	for entry, want := range map[string]bool{
		"10.0.0.0/8":          true,  // private; wider than the Services' network
		"192.168.0.0/16":      true,  // private
		"203.0.113.0/24":      true,  // public
		"fd00::/8":            true,  // wider than what lies in it
		"0.0.0.0/8":           true,  // stays refused
		"224.0.0.0/8":         true,  // stays refused
		"169.254.7.0/25":      true,  // denied
		"lb.example.com":      true,  // not refused
		"lb.corp.example.com": true,  // denied
		"10.100.0.0/16":       false, // of the Services
		"169.254.64.0/18":     false,
		"169.254.169.254/32":  false,
		"127.0.0.0/30":        false,
		"fe80::/64":           false,
		"2002:c000:200::/40":  false, // as a destination
		"cluster.local":       false,
		"web.default.svc":     false,
		"kubernetes":          false,
	} {
		with, err := New([]string{entry}, deny)
		if err != nil {
			t.Fatal(err)
		}
		without, err := New(nil, deny)
		if err != nil {
			t.Fatal(err)
		}
		with, without = with.WithServiceCIDRs(services), without.WithServiceCIDRs(services)
		if idle := slices.Contains(with.Idle(), entry); idle != want {
			t.Errorf("%s: idle %v, want %v", entry, idle, want)
		}
		if same := slices.Equal(decisions(with, entry), decisions(without, entry)); same != want {
			t.Errorf("%s: decisions with it are the same: %v, want %v", entry, same, want)
		}
	}
}
