package loadbalancer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// wish is a wanted state of a Service.
type wish struct {
	ports       []int32
	udp         bool
	nodes       int
	affinity    string
	local       bool
	ranges      []string
	annotations map[string]string
}

func (w wish) apply(b *bench) {
	status := b.service.Status
	b.service = service("web", w.ports...)
	b.service.Status = status
	b.service.SessionAffinity, b.service.LoadBalancerSourceRanges = w.affinity, w.ranges
	b.service.Annotations = w.annotations
	if w.udp {
		b.service.Ports = append(b.service.Ports, &abi.ServicePort{Name: "dns", Protocol: "UDP", Port: 80, NodePort: 30053})
	}
	if w.local {
		b.service.ExternalTrafficPolicy, b.service.HealthCheckNodePort = "Local", 32000
	}
	b.nodes = nodes(w.nodes)
}

func randomWish(r *rand.Rand) wish {
	w := wish{affinity: "None", nodes: 1 + r.IntN(4), local: r.IntN(3) == 0, annotations: map[string]string{}}
	for _, port := range []int32{80, 443, 8080} {
		if r.IntN(2) == 0 {
			w.ports = append(w.ports, port)
		}
	}
	if len(w.ports) == 0 {
		w.ports = []int32{25}
	}
	if r.IntN(3) == 0 {
		w.affinity = "ClientIP"
	}
	if r.IntN(3) == 0 {
		w.ranges = []string{"10.1.0.0/16", "192.0.2.0/24"}
	}
	for _, choice := range [][]string{
		{"enable-health-monitor", "true", "false"}, {"health-monitor-delay", "7", "9"}, {"connection-limit", "10", "20"},
		{"timeout-client-data", "1000"}, {"keep-floatingip", "false"}, {"node-selector", "n", "n=0"},
	} {
		if r.IntN(3) == 0 {
			w.annotations[ann+choice[0]] = choice[1+r.IntN(len(choice)-1)]
		}
	}
	switch r.IntN(5) {
	case 0:
		w.annotations[ann+"x-forwarded-for"] = "true"
	case 1:
		w.annotations[ann+"proxy-protocol"] = []string{"true", "v2"}[r.IntN(2)]
	case 2:
		w.udp = true
	case 3:
		w.annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
	}
	return w
}

var modes = [][]string{
	nil, {"provider-requires-serial-api-calls=true"}, {"lb-provider=ovn"}, {"cascade-delete=false"},
	{"create-monitor=true", "lb-provider=ovn", "cascade-delete=false"},
}

// TestCrashAnywhere: with calls lost at random, before or after their effect, a
// sequence of wanted states ends as it does without losses.
func TestCrashAnywhere(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			mode, looks := modes[r.IntN(len(modes))], r.IntN(3)
			clean, torn := newBench(t, mode...), newBench(t, mode...)
			clean.cloud.looks, torn.cloud.looks = looks, looks
			cut := func(int) (bool, bool) {
				n := r.IntN(12)
				return n == 0, n == 1
			}
			for range 4 {
				w := randomWish(r)
				w.apply(clean)
				w.apply(torn)
				clean.ensure()
				torn.cloud.cut = cut
				torn.ensure()
				torn.cloud.cut = nil
				if a, b := clean.cloud.canonical(), torn.cloud.canonical(); a != b {
					t.Fatalf("the state differs behind a crash (%+v, %v):\n%s\n--- without:\n%s", w, mode, b, a)
				}
				torn.quiet()
				clean.cloud.reset()
			}
			torn.cloud.cut = cut
			torn.delete()
			torn.cloud.cut = nil
			torn.empty()
			if torn.exists() {
				t.Fatal("get finds what is deleted")
			}
		})
	}
}

// TestCrashAtEachCall loses each call of a creation, a change and a deletion in
// turn, once before and once after its effect.
func TestCrashAtEachCall(t *testing.T) {
	before := wish{ports: []int32{80}, nodes: 2, affinity: "None", annotations: map[string]string{ann + "enable-health-monitor": "true"}}
	after := wish{ports: []int32{443, 80}, nodes: 3, affinity: "ClientIP", annotations: map[string]string{ann + "proxy-protocol": "v2"}}
	for _, mode := range modes {
		for _, behind := range []bool{false, true} {
			for at := 1; ; at++ {
				b := newBench(t, mode...)
				calls, cut := 0, false
				b.cloud.cut = func(int) (bool, bool) {
					calls++
					hit := calls == at
					cut = cut || hit
					return hit && !behind, hit && behind
				}
				before.apply(b)
				b.ensure()
				after.apply(b)
				b.ensure()
				b.quiet()
				if len(b.cloud.tables["loadbalancers"]) != 1 || len(b.cloud.tables["listeners"]) != 2 || len(b.cloud.tables["pools"]) != 2 || len(b.cloud.tables["floatingips"]) != 1 {
					t.Fatalf("mode %v, call %d, behind=%v: duplicates:\n%s", mode, at, behind, b.cloud.canonical())
				}
				b.delete()
				b.empty()
				if !cut {
					break
				}
			}
		}
	}
}
