package addresses

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// serviceCIDRs are as kubeadm and its users have them.
func serviceCIDRs() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")}
}

func policy(t *testing.T, allow, deny []string) *Policy {
	t.Helper()
	p, err := New(allow, deny)
	if err != nil {
		t.Fatal(err)
	}
	return p.WithServiceCIDRs(serviceCIDRs())
}

func words(text string) []string { return strings.Fields(text) }

// checkIP reads an address as a guest's and asks the policy.
func (p *Policy) checkIP(text string) error {
	ip, err := ParseIP(text)
	if err != nil {
		return err
	}
	return p.IP(ip)
}

func (p *Policy) checkDestination(text string) error {
	to, err := ParseCIDR(text)
	if err != nil {
		return err
	}
	return p.Destination(to)
}

// What clouds, Cluster API, kops, kubeadm, k3s and MetalLB have in ordinary
// clusters: nobody should have to allow it.
func TestOrdinaryAddressesPass(t *testing.T) {
	p := policy(t, nil, nil)
	for _, ip := range words(`10.0.0.11 10.244.1.7 10.95.255.255 10.112.0.0 172.16.0.1 172.31.255.254 192.168.1.1 192.168.178.20
		100.64.0.1 100.100.100.100 100.127.255.254 1.1.1.1 8.8.8.8 34.120.7.9 52.18.63.80 192.0.2.1 198.51.100.7 203.0.113.9 198.18.0.1
		2001:db8::1 2001:DB8:0:0:0:0:0:1 2a01:4f8::1 2600:1f18::5 2620:fe::fe fd00::1 fd12:3456:789a:1::1 fc00::1
		64:ff9b::808:808 2002:c000:201::1 168.63.129.15 192.0.0.10 169.253.255.255 169.255.0.1 128.0.0.1 223.255.255.255`) {
		if err := p.checkIP(ip); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
	for _, name := range words(`a1b2c3d4e5f6-123456789.elb.eu-west-1.amazonaws.com a1b2-123.elb.us-east-1.amazonaws.com
		k8s-default-web-0123456789.eu-central-1.elb.amazonaws.com lb.example.org web.default.example.com 1.lb.example.org xn--bcher-kva.example
		internal-a-1.eu-west-1.elb.amazonaws.com kubernetes.example.org svc.example.org my-svc.local lb1 localhost.example.org cluster.local.example.org`) {
		if err := p.Hostname(name); err != nil {
			t.Errorf("ingress hostname %s: %v", name, err)
		}
	}
	for _, name := range words(`worker-1 ip-10-0-0-1.eu-west-1.compute.internal ip-10-0-0-1.ec2.internal node-1.c.my-project.internal
		worker-1.localdomain worker-1.local worker-1.lan aks-nodepool1-12345678-vmss000000 k3s-server-0 kind-control-plane i-0123456789abcdef0.eu-west-1.compute.internal
		ec2-52-18-63-80.eu-west-1.compute.amazonaws.com WIN-ABC123 worker_1 cn-hangzhou.192.168.0.1 10.0.0.11 kubernetes node0 0xbeef.example 7b2f minikube`) {
		if err := p.NodeName(name); err != nil {
			t.Errorf("name of a Node %s: %v", name, err)
		}
	}
	for _, to := range words(`10.244.0.0/24 10.244.0.0/16 10.0.0.0/12 100.64.0.0/10 100.100.100.0/24 172.16.0.0/12 192.168.0.0/16 192.0.2.1/32 fd00:10:244::/64 2001:db8::/56
		168.63.129.0/24 10.0.0.5/24 FD00:10:244:1::/64`) {
		if err := p.checkDestination(to); err != nil {
			t.Errorf("route to %s: %v", to, err)
		}
	}
}

func TestWhatIsNeverRightIsRefused(t *testing.T) {
	p := policy(t, nil, nil)
	for _, test := range []struct{ want, ips string }{
		{"a loopback address", "127.0.0.1 127.255.255.254 127.1.2.3 ::1 64:ff9b::7f00:1 64:ff9b:1::127.0.0.1 2002:7f00:1::1 ::ffff:0:127.0.0.1 2001:0:7f00:1::1 2001:0:808:808::80ff:fffe"},
		{"a link-local address", "169.254.0.1 169.254.20.10 169.254.255.255 fe80::1 febf::1 64:ff9b::a9fe:102"},
		{"a metadata or credential service", "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42 64:ff9b::a9fe:a9fe"},
		{"a multicast address", "224.0.0.1 239.255.255.250 ff02::1 ff00:: ffff::1 64:ff9b::e000:1"},
		{"the broadcast address", "255.255.255.255"},
		{"a reserved address", "240.0.0.1 255.255.255.254 100::1"},
		{"nobody's address", "0.0.0.0 0.1.2.3 :: 2002::1"},
		{"notation of IPv6", "::7f00:1 ::2 ::10.0.0.1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:a00:1"},
		{"of the cluster's Services (10.96.0.0/12)", "10.96.0.1 10.96.0.10 10.111.255.255"},
		{"of the cluster's Services (fd00:10:96::/112)", "fd00:10:96::1 fd00:10:96::ffff"},
		{"not an IP address", "127.1 2130706433 0x7f.1 0177.0.0.1 127.0.0.01 1.2.3 1.2.3.4.5 1.2.3.256 localhost ٣.٣.٣.٣ 1.2.3.4/32 [::1] :::1 1::2::3 127.0.0.1: +1.2.3.4"},
		{"has a zone", "fe80::1%eth0 2001:db8::1%25"},
	} {
		for _, ip := range words(test.ips) {
			if err := p.checkIP(ip); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", ip, err, test.want)
			}
		}
	}
	for _, ip := range []string{"", " 10.0.0.1", "10.0.0.1 ", "10.0.0.1\n", "10.0.0.1\x00"} {
		if p.checkIP(ip) == nil {
			t.Errorf("%q is taken", ip)
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	p := policy(t, nil, nil)
	const node, ingress, both = 1, 2, 3
	for _, test := range []struct {
		where       int
		want, names string
	}{
		{both, "the API server's name", "kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local kubernetes.default.corp.example x.kubernetes.default"},
		{both, "a name of the cluster's Services", "svc web.default.svc kube-dns.kube-system.svc"},
		{both, "a name of the cluster's pods", "10-0-0-1.default.pod"},
		{ingress, "the API server's name", "kubernetes"},
		{both, "a name of the cluster's own", "cluster.local web.default.svc.cluster.local 10-0-0-1.default.pod.cluster.local node1.cluster.local"},
		{both, "it names a different machine on each reader", "localhost a.localhost localhost.localdomain ip6-localhost"},
		{both, "a metadata or credential service", "metadata.google.internal instance-data.ec2.internal metadata.goog a.metadata.google.internal"},
		{ingress, "", "LB.example.org lb_1.example.org -a.example.org a-.example.org 192.0.2.1 127.1 127.0.0.1 1.2.3.4.5 2130706433 0x7f.1 0x7f000001 0177.0.0.1 a.1 10.0.0.1.nip.5"},
		{both, "", "lb.example.org. localhost. . .. a..b .a *.example.org a/b a:80 2001:db8::1 [::1] lb.example.org,evil.example ｌｏｃａｌｈｏｓｔ local。host bücher.example a%20b a@b"},
		{node, "read as an IP address by some", "2130706433 127.1 0x7f.0.0.1 0177.0.0.1 017700000001 0x7f000001 0X7F000001 127.0.0.0x1 1234"},
		{node, "it names a different machine on each reader", "LOCALHOST LocalHost.LocalDomain"},
		{node, "the API server's name", "KUBERNETES.Default.svc"},
		{node, "a loopback address", "127.0.0.1"},
		{node, "of the cluster's Services", "10.96.0.1"},
		{node, "", "169.254.169.254 0.0.0.0"},
	} {
		for _, name := range words(test.names) {
			if err := p.Hostname(name); test.where&ingress != 0 && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("ingress hostname %q: %v, want %q", name, err, test.want)
			}
			if err := p.NodeName(name); test.where&node != 0 && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("name of a Node %q: %v, want %q", name, err, test.want)
			}
		}
	}
	for _, name := range []string{"", "a b", "a\n", "\x00", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127)} {
		if p.Hostname(name) == nil || p.NodeName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestDestinationsThatAreRefused(t *testing.T) {
	p := policy(t, nil, []string{"192.168.7.0/24"})
	for _, test := range []struct{ want, cidrs string }{
		{"a large part of all addresses", "0.0.0.0/0 128.0.0.0/1 64.0.0.0/2 2.0.0.0/7 ::/0 2000::/3 fd00::/8 10.0.0.0/0"},
		{"a loopback address", "127.0.0.0/8 127.0.0.0/24 127.0.0.1/32 ::1/128"},
		{"a link-local address", "169.254.0.0/16 169.0.0.0/8 169.254.169.0/24 fe80::/64"},
		{"a metadata or credential service", "169.254.169.254/32 100.100.100.200/32 fd00:ec2::254/128 100.100.100.200/31 168.63.129.16/28 fd00:ec2::254/127"},
		{"a multicast address", "224.0.0.0/8 224.0.0.0/24 ff02::/16"},
		{"a reserved address", "240.0.0.0/8"},
		{"nobody's address", "0.0.0.0/8 0.0.0.0/32 ::/128"},
		{"of the cluster's Services", "10.96.0.0/12 10.96.0.0/16 10.96.0.1/32 10.0.0.0/8 fd00:10:96::/112 fd00:10:96::/64"},
		{"denied by 192.168.7.0/24", "192.168.7.0/24 192.168.7.1/32 192.168.0.0/16"},
		{"notation of IPv6", "::ffff:10.0.0.0/120 ::ffff:0.0.0.0/96 ::a00:0/120 ::/96"},
		{"routers translate to IPv4", "64:ff9b::a9fe:a9fe/128 64:ff9b::/96 64:ff9b:1::/64 2002:a00::/24 2001::/64 ::ffff:0:7f00:1/128"},
		{"not a CIDR", "010.0.0.0/8 10.0.0/8 10.0.0.0/33 10.0.0.0/08 10.0.0.0/+8 10.0.0.0 fe80::%eth0/64 10.0.0.0/255.0.0.0"},
	} {
		for _, cidr := range words(test.cidrs) {
			if err := p.checkDestination(cidr); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", cidr, err, test.want)
			}
		}
	}
}

// An entry opens what lies within it, and only where it was written with the
// block in mind.
func TestAllowAndDeny(t *testing.T) {
	for _, test := range []struct {
		allow, deny, passes, refused string
	}{
		{"127.0.0.0/8", "", "127.0.0.1 127.0.0.0/24", "::1 169.254.0.1"},
		{"127.0.0.1/32", "", "127.0.0.1 127.0.0.1/32 64:ff9b::7f00:1", "127.0.0.2 127.0.0.0/24"},
		{"169.254.0.0/16", "", "169.254.7.1", "169.254.169.254 169.254.170.2"},
		{"169.254.0.0/16 169.254.169.254/32", "", "169.254.169.254", "169.254.170.2"},
		{"fe80::/10", "", "fe80::1 fe80::/64", "::1"},
		{"240.0.0.0/4", "", "240.0.0.1 250.0.0.0/8", "255.255.255.255"},
		{"10.96.5.0/24", "", "10.96.5.1", "10.96.6.1"},
		{"10.0.0.0/8", "", "10.0.0.1", "10.96.0.1"},
		{"0.0.0.0/0 ::/0", "", "10.0.0.1", "127.0.0.1 10.96.0.1 224.0.0.1 0.0.0.0 ::1"},
		{"224.0.0.0/4 ff00::/8 0.0.0.0/8 255.255.255.255/32", "", "", "224.0.0.1 ff02::1 0.0.0.0 255.255.255.255"},
		{"", "10.0.0.0/8", "192.168.0.1", "10.0.0.1 10.1.0.0/16 64:ff9b::a00:1"},
		{"127.0.0.0/8", "127.0.0.1/32", "127.0.0.2", "127.0.0.1"},
		{"localhost", "", "localhost a.localhost", "web.default.svc localhost.localdomain"},
		{"cluster.local", "", "web.default.pod.cluster.local", "web.default.svc kubernetes.default.svc.cluster.local"},
		{"local", "", "", "node1.cluster.local"},
		{"node1.cluster.local", "", "node1.cluster.local", "node2.cluster.local"},
		{"svc kubernetes.default.svc", "", "kubernetes.default.svc", ""},
		{"", "corp.example", "corp.example.org notcorp.example", "corp.example web.default.svc.corp.example"},
		{"localhost", "localhost", "", "localhost"},
	} {
		p := policy(t, words(test.allow), words(test.deny))
		check := func(text string) error {
			switch {
			case strings.Contains(text, "/"):
				return p.checkDestination(text)
			case strings.ContainsAny(text, ":") || strings.Trim(text, "0123456789.") == "":
				return p.checkIP(text)
			}
			return errors.Join(p.Hostname(text), p.NodeName(text))
		}
		for _, text := range words(test.passes) {
			if err := check(text); err != nil {
				t.Errorf("allow %q, deny %q: %s: %v", test.allow, test.deny, text, err)
			}
		}
		for _, text := range words(test.refused) {
			if check(text) == nil {
				t.Errorf("allow %q, deny %q: %s is taken", test.allow, test.deny, text)
			}
		}
	}
}

// What an error says to add is what mends it.
func TestTheErrorSaysHowToMend(t *testing.T) {
	p := policy(t, nil, nil)
	for _, text := range words("127.0.0.1 169.254.169.254 fe80::1 10.96.0.1 64:ff9b::7f00:1 240.0.0.1 fd00:10:96::7") {
		var refused *Error
		if err := p.checkIP(text); !errors.As(err, &refused) || refused.mend == "" {
			t.Errorf("%s: %v has no way to mend it", text, err)
			continue
		}
		if err := policy(t, []string{refused.mend}, nil).checkIP(text); err != nil {
			t.Errorf("%s with allow %s: %v", text, refused.mend, err)
		}
	}
	for _, text := range words("localhost kubernetes.default web.default.svc x.cluster.local metadata.google.internal") {
		var refused *Error
		if err := p.Hostname(text); !errors.As(err, &refused) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := policy(t, []string{refused.mend}, nil).Hostname(text); err != nil {
			t.Errorf("%s with allow %s: %v", text, refused.mend, err)
		}
	}
	if err := p.checkIP("224.0.0.1"); strings.Contains(err.Error(), "allow") {
		t.Errorf("what nothing can allow: %v", err)
	}
}

func TestEntriesThatAreNone(t *testing.T) {
	for _, entry := range []string{"", "10.0.0.1", "::1", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "*.example.org", "example.org.", "a b", "/", "010.0.0.0/8"} {
		if _, err := New([]string{"10.0.0.0/8", entry}, nil); err == nil || !strings.HasPrefix(err.Error(), "allow[1]: ") {
			t.Errorf("allow %q: %v", entry, err)
		}
		if _, err := New(nil, []string{entry}); err == nil || !strings.HasPrefix(err.Error(), "deny[0]: ") {
			t.Errorf("deny %q: %v", entry, err)
		}
	}
}

// What looks like an address protects nothing when it is taken for a name.
func TestEntriesThatAreNoNetworkAreNoNames(t *testing.T) {
	for _, entry := range []string{"10.0.0.0-10.0.0.9", "10.96.0", "10.0.0.256", "10.0.0.010"} {
		if _, _, err := ParseEntry(entry); err == nil || !strings.Contains(err.Error(), "write a network") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
