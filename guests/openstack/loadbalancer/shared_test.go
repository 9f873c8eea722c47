package loadbalancer_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// shared is a Service "web" with a load balancer, and another Service that
// shares it.
func shared(t *testing.T, lines ...string) (b *bench, web, guest *abi.Service) {
	t.Helper()
	b = newBench(t, lines...)
	web = b.service
	b.ensure()
	guest = service("guest", 443)
	guest.Annotations[ann+"load-balancer-id"] = b.cloud.tables["loadbalancers"][0].id
	b.service = guest
	return b, web, guest
}

func TestShared(t *testing.T) {
	for _, first := range []string{"owner first", "guest first"} {
		t.Run(first, func(t *testing.T) {
			b, web, guest := shared(t)
			address := web.Status.Ingress[0].Ip
			if got := b.ensure(); got != address {
				t.Fatalf("the guest's address is %s, not %s", got, address)
			}
			b.quiet()
			b.service = web
			b.quiet()
			if got, want := b.shows("listeners", "protocol_port", "tags"), `{"protocol_port":443,"tags":["kube_service_c_default_guest"]} {"protocol_port":80,"tags":["kube_service_c_default_web"]}`; got != want {
				t.Fatalf("the listeners are %s, not %s", got, want)
			}
			leaves, stays := web, guest
			if first == "guest first" {
				leaves, stays = guest, web
			}
			b.service = leaves
			b.delete()
			if b.exists() {
				t.Fatal("what has left still exists")
			}
			b.service = stays
			if got := b.ensure(); got != address {
				t.Fatalf("the address of what stays is %s, not %s", got, address)
			}
			b.quiet()
			b.delete()
			b.empty()
		})
	}
}

// TestSharedIsNotTakenOver: limits for a Service on the load balancer of
// another.
func TestSharedIsNotTakenOver(t *testing.T) {
	for _, test := range []struct {
		name, want string
		lines      []string
		set        func(b *bench, guest *abi.Service)
	}{
		{name: "a port in use", want: "80/TCP", set: func(_ *bench, guest *abi.Service) { guest.Ports[0].Port = 80 }},
		{name: "internal", want: "internal Service", set: func(_ *bench, guest *abi.Service) { guest.Annotations[internal] = "true" }},
		{name: "too many", want: "max-shared-lb is 1", lines: []string{"max-shared-lb=1"}},
		{name: "no tags", want: "v2.5", set: func(b *bench, _ *abi.Service) {
			b.cloud.version = 4
			b.host.Clock = b.host.Clock.Add(2 * 3600e9)
		}},
		{name: "without a floating IP", want: "publish", set: func(b *bench, _ *abi.Service) { b.cloud.tables["floatingips"] = nil }},
		{name: "of nobody", want: "there is no load balancer", set: func(_ *bench, guest *abi.Service) { guest.Annotations[ann+"load-balancer-id"] = "?" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, web, guest := shared(t, test.lines...)
			if test.set != nil {
				test.set(b, guest)
			}
			before := b.shows("loadbalancers", "name") + b.addresses("30080")
			if _, err := b.tryEnsure(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("the error is %v", err)
			}
			b.delete()
			if after := b.shows("loadbalancers", "name") + b.addresses("30080"); after != before {
				t.Fatalf("the other's load balancer was %s and is %s", before, after)
			}
			b.service = web
			b.ensure()
		})
	}
}

// TestGuestOfAPerson: a load balancer that a person made is never deleted.
func TestGuestOfAPerson(t *testing.T) {
	b := newBench(t)
	b.post("http://octavia/v2.0/lbaas/loadbalancers", `{"loadbalancer":{"name":"mine","vip_subnet_id":"nodes4","provider":"amphora"}}`)
	lb := b.cloud.tables["loadbalancers"][0]
	b.post("http://neutron/v2.0/floatingips", `{"floatingip":{"floating_network_id":"ext","description":"mine","port_id":"`+str(lb.values["vip_port_id"])+`"}}`)
	b.service.Annotations[ann+"load-balancer-id"] = lb.id
	b.ensure()
	b.quiet()
	b.delete()
	if got, want := b.shows("loadbalancers", "name", "tags")+b.shows("floatingips", "description")+b.shows("listeners", "name"), `{"name":"mine","tags":[]}{"description":"mine"}`; got != want {
		t.Fatalf("left is %s, not %s", got, want)
	}
	if b.exists() {
		t.Fatal("the Service still exists there")
	}
}

// TestMovedToShared: nothing stays behind when the annotation comes or goes.
func TestMovedToShared(t *testing.T) {
	b, web, guest := shared(t)
	delete(guest.Annotations, ann+"load-balancer-id")
	b.ensure()
	guest.Annotations[ann+"load-balancer-id"] = b.cloud.tables["loadbalancers"][0].id
	b.ensure()
	delete(guest.Annotations, ann+"load-balancer-id")
	b.delete()
	b.service = web
	b.quiet()
	b.delete()
	b.empty()
}

// TestSharedIsNotDeleted: parts of others, half-made or older than tags, keep a
// load balancer.
func TestSharedIsNotDeleted(t *testing.T) {
	t.Run("by its owner", func(t *testing.T) {
		b := newBench(t)
		b.ensure()
		lb := b.cloud.tables["loadbalancers"][0]
		lb.values["tags"] = []any{"kube_service_c_default_web", "kube_service_c_default_guest"}
		b.delete()
		if got, want := b.shows("loadbalancers", "tags")+b.shows("listeners", "name"), `{"tags":["kube_service_c_default_guest"]}`; got != want {
			t.Fatalf("left is %s, not %s", got, want)
		}
	})
	t.Run("by a guest", func(t *testing.T) {
		b, _, _ := shared(t)
		b.ensure()
		b.cloud.tables["loadbalancers"][0].values["tags"] = []any{}
		b.cloud.tables["listeners"][0].values["tags"] = []any{}
		b.delete()
		if got, want := b.shows("listeners", "protocol_port"), `{"protocol_port":80}`; got != want {
			t.Fatalf("left is %s, not %s", got, want)
		}
	})
}
