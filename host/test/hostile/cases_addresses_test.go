package hostile_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// 11: they answer addresses that would steer the cluster's traffic.
func addressCases() []hostileCase {
	answering := func(op abi.Op, wants map[string]string) (all []hostileCase) {
		for name, want := range wants {
			all = append(all, hostileCase{name: name, phase: phaseOp, ops: []abi.Op{op}, want: want})
		}
		slices.SortFunc(all, func(a, b hostileCase) int { return strings.Compare(a.name, b.name) })
		return all
	}
	const metadata = " is refused: it is a metadata or credential service of a cloud"
	return slices.Concat(
		answering(abi.OpLoadBalancerEnsure, map[string]string{
			"address_lb_loopback":    "ingress[0]: ip: 127.0.0.1 is refused: it is a loopback address",
			"address_lb_link_local":  "169.254.20.10 is refused: it is a link-local address",
			"address_lb_metadata":    "169.254.169.254" + metadata,
			"address_lb_metadata6":   "ingress[1]: ip: fd00:ec2::254" + metadata,
			"address_lb_multicast":   "224.0.0.251 is refused: it is a multicast address",
			"address_lb_broadcast":   "it is the broadcast address",
			"address_lb_reserved":    "240.0.0.1 is refused: it is a reserved address",
			"address_lb_unspecified": "0.0.0.0 is refused: it is nobody's address",
			"address_lb_mapped":      "::ffff:127.0.0.1 is refused",
			"address_lb_nat64":       "64:ff9b::a9fe:a9fe" + metadata,
			"address_lb_6to4":        "2002:7f00:1::1 is refused: it is a loopback address",
			"address_lb_octal":       `"0177.0.0.01" is not an IP address`,
			"address_lb_api_server":  `hostname: "kubernetes.default.svc" is refused: it is the API server's name`,
			"address_lb_cluster_dns": "is refused: it is a name of the cluster's own",
			"address_lb_localhost":   `hostname: "localhost" is refused`,
			"address_lb_number":      `hostname: "2130706433" is an IP address`,
			"address_lb_wildcard":    `hostname: "*.example.com" has a character`,
		}),
		answering(abi.OpLoadBalancerGet, map[string]string{"address_lb_get_loopback": "::1 is refused: it is a loopback address"}),
		answering(abi.OpInstanceMetadata, map[string]string{
			"address_node_loopback":    "addresses[0]: 127.0.0.1 is refused: it is a loopback address",
			"address_node_metadata":    "addresses[1]: 169.254.169.254" + metadata,
			"address_node_link_local6": "fe80::1 is refused: it is a link-local address",
			"address_node_last":        "addresses[63]: ff02::1 is refused: it is a multicast address",
			"address_node_localhost":   `Hostname: "localhost" is refused`,
			"address_node_hex":         `ExternalDNS: "0x7f.0.0.0x1" is refused: it is read as an IP address by some`,
			"address_node_api_server":  `InternalDNS: "kubernetes.default.svc" is refused`,
			"address_node_unicode":     "has a character that is no letter",
		}),
		answering(abi.OpRouteList, map[string]string{
			"address_route_octal":  `routes[0]: destination_cidr "010.0.0.0/8" is not a CIDR`,
			"address_route_mapped": "in the notation of IPv6",
		}),
		[]hostileCase{
			{name: "address_lb_service", phase: phaseOp, custom: answersAService},
			{name: "address_route_everything", phase: phaseOp, custom: routesEverything},
		},
	)
}

// answersAService refuses an address of the cluster's Services, as far as they
// are known.
func answersAService(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, end time.Time) {
	policy := addresses.Default().WithServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")})
	p := serve(t, loader, slot, "address_lb_service", provider.WithAddresses(func() *addresses.Policy { return policy }, nil))
	c := hostileCase{want: "10.96.0.10 is refused: it is of the cluster's Services (10.96.0.0/12)"}
	for first := true; first || time.Now().Before(end); first = false {
		gone, err := run(t.Context(), p, abi.OpLoadBalancerEnsure)
		c.checkOp(t, abi.OpLoadBalancerEnsure, gone, err)
	}
}

// routesEverything keeps the one route of a Node's pods, and nothing besides.
func routesEverything(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, end time.Time) {
	routes, _ := serve(t, loader, slot, "address_route_everything").Routes()
	for first := true; first || time.Now().Before(end); first = false {
		list, err := routes.ListRoutes(t.Context(), cluster)
		if err != nil || len(list) != 1 || list[0].DestinationCIDR != "10.0.0.0/24" {
			t.Fatalf("routes %v, error %v", list, err)
		}
	}
}

// serve loads a hostile module and puts it into the slot.
func serve(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, name string, options ...provider.Option) *provider.Provider {
	t.Helper()
	c := hostileCase{name: name}
	g, err := loader.Load(t.Context(), plugin.Bundle{Module: c.wasm(t)})
	if err != nil {
		t.Fatal(err)
	}
	<-slot.Swap(t.Context(), g).Closed()
	return provider.New(slot, options...)
}
