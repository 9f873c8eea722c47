package instances

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func TestParseProviderID(t *testing.T) {
	tests := map[string]struct{ region, id string }{
		"openstack:///x": {"", "x"}, "openstack://us-east-1/x": {"us-east-1", "x"}, "/x": {"", "x"}, "us-east-1/x": {"us-east-1", "x"},
		"": {}, "x": {}, "openstack://x": {}, "openstack:///": {}, "openstack://r/": {}, "openstack://r/x/y": {}, "openstack://": {},
		"aws:///x": {}, "OpenStack:///x": {}, "openstack2:///x": {}, "openstack://r/" + strings.Repeat("x", 512): {},
	}
	for text, want := range tests {
		region, id, err := ParseProviderID(text)
		if region != want.region || id != want.id || (err == nil) != (want.id != "") {
			t.Errorf("%q: %q, %q, %v", text, region, id, err)
		}
		if err != nil && sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzProviderID(f *testing.F) {
	for _, seed := range []string{"openstack:///" + uuid(1), "openstack://R1/" + uuid(2), "/" + uuid(3), "aws:///x", "openstack://R1/" + strings.ToUpper(uuid(4)), "openstack:///../servers"} {
		f.Add(seed)
	}
	cloud := &fakeCloud{t: f}
	i := cloud.instances()
	f.Fuzz(func(t *testing.T, text string) {
		node := &abi.Node{Name: "n", ProviderId: text}
		id, err := i.serverID(node)
		if err != nil {
			if id != "" || sdk.CodeOf(err) != abi.CodeInvalid || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q: %q, %v", text, id, err)
			}
			return
		}
		if canonical(id) != id || len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" {
			t.Fatalf("%q: %q", text, id)
		}
		// The Node's provider ID leads back to its server.
		if again, err := i.serverID(&abi.Node{ProviderId: i.providerID(id)}); again != id || err != nil {
			t.Fatalf("%q: %q, then %q, %v", text, id, again, err)
		}
	})
}

// FuzzServer: any answer of Nova and Neutron gives an error or metadata that
// the host accepts.
func FuzzServer(f *testing.F) {
	cloud := &fakeCloud{t: f}
	rich(cloud)
	s, err := json.Marshal(cloud.servers[0])
	if err != nil {
		f.Fatal(err)
	}
	p, err := json.Marshal(cloud.ports)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(s), string(p), "10.0.0.0/8")
	f.Add(`{"id": "`+uuid(1)+`", "flavor": {"id": "a b"}, "addresses": {"x": [{"addr": "::ffff:10.0.0.1"}]}}`, `[]`, "")
	f.Add(`null`, `[null]`, "")
	f.Fuzz(func(t *testing.T, server, ports, order string) {
		cloud := &fakeCloud{t: t, instead: func(req *abi.HttpRequest) *abi.HttpResponse {
			switch {
			case strings.Contains(req.Url, "/ports"):
				return answer(200, `{"ports": `+ports+`}`)
			case strings.Contains(req.Url, "/networks"):
				return answer(200, `{"networks": []}`)
			case strings.Contains(req.Url, "/detail"):
				return answer(200, `{"servers": [`+server+`]}`)
			}
			return answer(200, `{"server": `+server+`}`)
		}}
		i := cloud.instances()
		if prefix, err := netip.ParsePrefix(order); err == nil {
			i.config.Networking.AddressSortOrder = []netip.Prefix{prefix.Masked()}
		}
		m, err := i.Metadata(byID(uuid(1)))
		if err == nil {
			checkFit(t, m)
		}
		// The same answers, read as a list.
		page, _, listErr := i.List("", 100)
		for _, instance := range page {
			checkFit(t, instance.Metadata)
		}
		if err == nil && listErr == nil && len(page) == 1 && text(page[0].Metadata) != text(m) {
			t.Fatalf("listed %s\nalone %s", text(page[0].Metadata), text(m))
		}
	})
}

func checkFit(t *testing.T, m *abi.InstanceMetadata) {
	t.Helper()
	for _, value := range []string{m.InstanceType, m.Zone, m.Region} {
		if !isLabel(value) {
			t.Fatalf("%q is no label", value)
		}
	}
	if len(m.Addresses) == 0 || len(m.Addresses) > maxAddresses || m.InstanceType == "" {
		t.Fatalf("not fit: %s", text(m))
	}
	for _, a := range m.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type != hostName && (err != nil || ip.Zone() != "" || ip.IsUnspecified()) || a.Type == hostName && !isHostName(a.Address) {
			t.Fatalf("%v %q", a.Type, a.Address)
		}
	}
}

func BenchmarkListOf100(b *testing.B) {
	f := &fakeCloud{t: b}
	fill(f, 100)
	i := f.instances()
	servers := f.listServers(nil, "")
	ports := f.list("ports", f.ports, nil)
	f.instead = func(req *abi.HttpRequest) *abi.HttpResponse {
		if strings.Contains(req.Url, "/ports") {
			return ports
		}
		return servers
	}
	b.SetBytes(int64(len(servers.Body) + len(ports.Body)))
	b.ReportAllocs()
	for b.Loop() {
		f.requests = nil
		page, _, err := i.List("", 100)
		if err != nil || len(page) != 100 {
			b.Fatal(err)
		}
	}
}
