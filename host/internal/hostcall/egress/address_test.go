package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// answers starts a DNS server that gives for every name the next of the
// answers, and the last one from then on.
func answers(t *testing.T, addrs ...netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var asked atomic.Int32
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if r := resource(m.Questions[0], addrs, &asked); r != nil {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: m.Questions[0].Type, Class: dnsmessage.ClassINET, TTL: 1}, Body: r}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	var dialer net.Dialer
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// resource answers a question; nil: the name has no such address.
func resource(q dnsmessage.Question, addrs []netip.Addr, asked *atomic.Int32) dnsmessage.ResourceBody {
	if len(addrs) == 0 {
		return nil
	}
	if q.Type == dnsmessage.TypeA {
		i := min(int(asked.Add(1))-1, len(addrs)-1)
		if addrs[i].Is4() {
			return &dnsmessage.AResource{A: addrs[i].As4()}
		}
	}
	if q.Type == dnsmessage.TypeAAAA && addrs[0].Is6() {
		return &dnsmessage.AAAAResource{AAAA: addrs[0].As16()}
	}
	return nil
}

// behindDNS returns a client that may send to http://cloud.example:PORT, where
// a server listens on 127.0.0.1, and that port.
func behindDNS(t *testing.T, addrs []netip.Addr, cidrs ...netip.Prefix) (*egress.Client, string) {
	t.Helper()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, r.Host)
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	g := grant(t, "http://cloud.example:"+port)
	g.CIDRs = cidrs
	return newClient(t, egress.Options{Resolver: answers(t, addrs...)}, g), port
}

func TestResolvedAddressIsVetted(t *testing.T) {
	for _, address := range []string{
		"127.0.0.1", "127.255.0.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fec0::1", "fd00:ec2::254", "fc00::1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2001:0:1::1", "2001:db8::1", "100::1", "5f00::1",
	} {
		client, port := behindDNS(t, []netip.Addr{netip.MustParseAddr(address)})
		wantCode(t, sendOne(t, client, get("http://cloud.example:"+port)), abi.CodeDenied, "refused")
		if t.Failed() {
			t.Fatalf("with address %s", address)
		}
	}
}

func TestAllowedNetworks(t *testing.T) {
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	client, port := behindDNS(t, loopback, netip.MustParsePrefix("127.0.0.0/8"))
	got := sendOne(t, client, get("http://cloud.example:"+port))
	if string(responseOf(got).Body) != "cloud.example:"+port {
		t.Errorf("the server saw the host %q (%v)", responseOf(got).Body, got.Error)
	}
	other, port := behindDNS(t, loopback, netip.MustParsePrefix("10.0.0.0/8"))
	wantCode(t, sendOne(t, other, get("http://cloud.example:"+port)), abi.CodeDenied, "cidrs of the grant")
	for _, never := range []string{"0.0.0.0", "::", "224.0.0.1", "ff02::1"} {
		addr := netip.MustParseAddr(never)
		all, port := behindDNS(t, []netip.Addr{addr}, netip.PrefixFrom(addr, 0).Masked())
		wantCode(t, sendOne(t, all, get("http://cloud.example:"+port)), abi.CodeDenied, "never")
	}
}

func TestDNSThatChangesItsMindIsRefused(t *testing.T) {
	client, port := behindDNS(t, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254")}, netip.MustParsePrefix("127.0.0.1/32"))
	url := "http://cloud.example:" + port
	if got := sendOne(t, client, get(url)); got.Code != 0 {
		t.Fatal(errorOf(got).Message)
	}
	wantCode(t, sendOne(t, client, get(url)), abi.CodeDenied, "169.254.169.254")
}
