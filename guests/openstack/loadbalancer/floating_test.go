package loadbalancer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func TestFloatingIPStays(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(b *bench)
		left string
	}{
		{"kept", func(b *bench) { b.service.Annotations[ann+"keep-floatingip"] = "true" }, `{"port_id":null}`},
		{"of a person", func(b *bench) { b.cloud.tables["floatingips"][0].values["description"] = "mine" }, `{"port_id":null}`},
		{"made", func(*bench) {}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.ensure()
			test.set(b)
			b.delete()
			if got := b.shows("floatingips", "port_id"); got != test.left {
				t.Fatalf("left is %q, not %q", got, test.left)
			}
			if b.exists() {
				t.Fatal("get finds what is deleted")
			}
		})
		t.Run(test.name+", internal", func(t *testing.T) {
			b := newBench(t)
			b.ensure()
			test.set(b)
			b.service.Annotations[internal] = "true"
			if address := b.ensure(); !strings.HasPrefix(address, "10.0.9.") {
				t.Fatalf("the address is %s", address)
			}
			if got := b.shows("floatingips", "port_id"); got != test.left {
				t.Fatalf("left is %q, not %q", got, test.left)
			}
			b.quiet()
		})
	}
}

func TestChosenFloatingIP(t *testing.T) {
	b := newBench(t)
	b.cloud.add("floatingips", object{"id": "f", "floating_ip_address": "203.0.113.99", "description": "mine"})
	b.service.LoadBalancerIp = "203.0.113.99"
	if address := b.ensure(); address != "203.0.113.99" {
		t.Fatalf("the address is %s", address)
	}
	b.quiet()
	b.service = service("other", 80)
	b.service.LoadBalancerIp = "203.0.113.99"
	if _, err := b.tryEnsure(); err == nil || !strings.Contains(err.Error(), "203.0.113.99 is in use") {
		t.Fatalf("the error is %v", err)
	}
}

// TestAddressSurvives: a load balancer that others deleted comes back with its
// address, and a floating IP that it left is not forgotten.
func TestAddressSurvives(t *testing.T) {
	b := newBench(t)
	address := b.ensure()
	b.cloud.vanish(b.cloud.tables["loadbalancers"][0])
	if again := b.ensure(); again != address {
		t.Fatalf("the address is %s and was %s", again, address)
	}
	b.cloud.vanish(b.cloud.tables["loadbalancers"][0])
	if !b.exists() {
		t.Fatal("a floating IP is left, and get says that nothing is")
	}
	b.delete()
	b.empty()
}

// TestInError: a load balancer that once worked is not deleted because of an
// ERROR.
func TestInError(t *testing.T) {
	b := newBench(t)
	b.ensure()
	lb := b.cloud.tables["loadbalancers"][0]
	lb.values["provisioning_status"] = "ERROR"
	for _, age := range []bool{true, false} {
		if _, err := b.tryEnsure(); err == nil || sdk.CodeOf(err) == abi.CodeRetryAfter || !strings.Contains(err.Error(), "ERROR") || b.cloud.find("loadbalancers", lb.id) == nil {
			t.Fatalf("age %v: the error is %v", age, err)
		}
		b.service.Status = nil // a restored Service has none
	}
	b.delete()
	b.empty()
}

// TestFailedAtBirth: a load balancer that never worked is made again.
func TestFailedAtBirth(t *testing.T) {
	b := newBench(t)
	b.cloud.looks = 3
	if _, err := b.ensureOnce(); sdk.CodeOf(err) != abi.CodeRetryAfter {
		t.Fatalf("the error is %v", err)
	}
	failed := b.cloud.tables["loadbalancers"][0]
	b.cloud.waits[failed.id], failed.values["provisioning_status"] = 0, "ERROR"
	b.ensure()
	if lb := b.cloud.tables["loadbalancers"][0]; len(b.cloud.tables["loadbalancers"]) != 1 || lb.id == failed.id {
		t.Fatal("it was not made again")
	}
}

func TestPauses(t *testing.T) {
	b := newBench(t)
	b.cloud.looks = 1000
	var pauses []string
	for range 5 {
		_, err := b.ensureOnce()
		var asked *abi.Error
		if !errors.As(err, &asked) {
			t.Fatalf("the error is %v", err)
		}
		pauses = append(pauses, asked.RetryAfter.String())
		b.host.Clock = b.host.Clock.Add(24e9)
	}
	if got, want := strings.Join(pauses, " "), "1s 6s 12s 15s 15s"; got != want {
		t.Fatalf("the pauses are %s, not %s", got, want)
	}
}

func TestUpdateNeedsALoadBalancer(t *testing.T) {
	b := newBench(t)
	err := loadbalancer.Update(b.client(), b.config, b.request())
	if sdk.CodeOf(err) != abi.CodeNotFound || len(b.cloud.writes()) > 0 {
		t.Fatalf("the error is %v", err)
	}
}

// TestNoNodes: with a configured subnet a load balancer needs no Nodes.
func TestNoNodes(t *testing.T) {
	b := newBench(t)
	b.nodes = nil
	if _, err := b.ensureOnce(); sdk.CodeOf(err) != abi.CodeRetryAfter || !strings.Contains(err.Error(), "subnet-id") {
		t.Fatalf("the error is %v", err)
	}
	b = newBench(t, "subnet-id=nodes4")
	b.nodes = nil
	b.ensure()
	b.nodes = nodes(2)
	b.update()
	b.nodes = nil
	b.update()
	if got := b.addresses("30080"); got != "" {
		t.Fatalf("the members are %s", got)
	}
	b.quiet()
}

// TestInternalInError: it worked before, since the Service has an address.
func TestInternalInError(t *testing.T) {
	b := newBench(t, "internal-lb=true")
	b.ensure()
	lb := b.cloud.tables["loadbalancers"][0]
	lb.values["provisioning_status"] = "ERROR"
	if _, err := b.tryEnsure(); err == nil || b.cloud.find("loadbalancers", lb.id) == nil {
		t.Fatalf("the error is %v", err)
	}
}

// TestMadeAgain: a Service that comes back does not wait for the deletion of
// its former load balancer.
func TestMadeAgain(t *testing.T) {
	b := newBench(t)
	b.ensure()
	b.cloud.looks = 1000
	if err := loadbalancer.Delete(b.client(), b.config, b.request()); sdk.CodeOf(err) != abi.CodeRetryAfter {
		t.Fatalf("the error is %v", err)
	}
	b.cloud.looks = 0
	b.service = service("web", 80)
	b.ensure()
	b.quiet()
}

func TestNodesWithOneAddress(t *testing.T) {
	b := newBench(t)
	b.nodes[1].Addresses = b.nodes[0].Addresses
	b.ensure()
	if got := b.addresses("30080"); got != "10.0.0.10 10.0.0.12" {
		t.Fatalf("the members are %s", got)
	}
	b.quiet()
}

// TestTwins: a creation that takes effect after its successor leaves nothing
// behind.
func TestTwins(t *testing.T) {
	for _, published := range []bool{false, true} {
		b := newBench(t)
		if published {
			b.ensure()
		}
		for range 2 {
			b.post("http://octavia/v2.0/lbaas/loadbalancers", strings.NewReplacer("PROTOCOL", "TCP", "LISTENER", "", "POOL", "", "MEMBER", "").Replace(madeAmphora))
		}
		kept := b.cloud.tables["loadbalancers"][0].id
		b.ensure()
		for range 2 {
			b.cloud.age("loadbalancers", "")
		}
		b.quiet()
		if all := b.cloud.tables["loadbalancers"]; len(all) != 1 || all[0].id != kept {
			t.Fatalf("published %v: there are %d", published, len(all))
		}
	}
	b := newBench(t)
	for range 2 {
		b.post("http://octavia/v2.0/lbaas/loadbalancers", `{"loadbalancer":{"name":"kube_service_c_default_web","description":"mine","vip_subnet_id":"nodes4"}}`)
	}
	if _, err := b.tryEnsure(); err == nil || !strings.Contains(err.Error(), "delete all but one") || len(b.cloud.tables["loadbalancers"]) != 2 {
		t.Fatalf("the error is %v", err)
	}
}

// TestSlowCreation: an unanswered creation is not repeated at once.
func TestSlowCreation(t *testing.T) {
	b := newBench(t)
	b.cloud.cut = func(n int) (bool, bool) { return b.cloud.calls[n-1] == "POST /v2.0/lbaas/loadbalancers", false }
	for range 10 {
		if _, err := b.ensureOnce(); err == nil {
			t.Fatal("it is made")
		}
		b.host.Clock = b.host.Clock.Add(1e9)
	}
	if n := len(b.cloud.writes()); n != 1 {
		t.Fatalf("it was asked for %d times in ten seconds: %v", n, b.cloud.calls)
	}
	b.cloud.cut = nil
	b.ensure()
	b.quiet()
}
