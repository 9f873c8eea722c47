package routes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// node is a Node of Kubernetes.
type node struct {
	name, address, cidr string
}

// reconcile is one pass of upstream's route controller: it deletes unwanted
// routes, then creates missing ones. It reports whether all succeeded.
func (m *manager) reconcile(nodes []node) bool {
	listed, err := m.r().List()
	if err != nil {
		return false
	}
	ok := true
	keep := map[node]bool{}
	for _, r := range listed {
		wanted := slices.IndexFunc(nodes, func(n node) bool { return n.name == r.TargetNode && n.cidr == r.DestinationCidr })
		if wanted >= 0 && !r.Blackhole && !r.HasTargetNodeAddresses {
			keep[nodes[wanted]] = true
			continue
		}
		ok = m.delete(r) == nil && ok
	}
	for _, n := range nodes {
		if !keep[n] {
			ok = m.create(route(n.name, n.cidr, n.address)) == nil && ok
		}
	}
	return ok
}

func wantedState(nodes []node) string {
	lines := []string{}
	for _, n := range nodes {
		lines = append(lines, n.cidr+" via "+n.address, "port-"+n.name+" allows "+n.cidr)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestCrashes ends the manager at each call of random changes of the cluster,
// before or after its effect. A new manager, without memory, always reaches the
// state that the Nodes want, and then writes nothing. A manager that did not
// crash retries a failed op with its memory.
func TestCrashes(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCloud()
		c.atomic = seed%2 == 0
		var pool []node
		for i := range 6 {
			n := node{fmt.Sprintf("node-%d", i), fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("10.244.%d.0/24", i)}
			pool = append(pool, n)
			c.addNode(n.name, n.address)
		}
		m := newManager(t, c)
		var nodes []node
		for range 6 {
			nodes = nodes[:0]
			for _, i := range random.Perm(len(pool))[:random.IntN(len(pool)+1)] {
				n := pool[i]
				n.cidr = fmt.Sprintf("10.244.%d.0/24", (i+random.IntN(2)*len(pool))%250)
				nodes = append(nodes, n)
			}
			at, after, count := random.IntN(25), random.IntN(2) == 1, 0
			down := false
			c.fail = func(_ string, done bool) int {
				if done == after {
					count++
				}
				if down = down || count > at; down {
					return 503
				}
				return 0
			}
			m.reconcile(nodes)
			c.fail = nil
			if down && random.IntN(2) == 0 {
				m = newManager(t, c)
			}
		}
		settle(t, m, c, nodes)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// settle gives the manager up to two minutes of passes.
func settle(t *testing.T, m *manager, c *cloud, nodes []node) {
	t.Helper()
	for range 12 {
		m.reconcile(nodes)
		m.host.Clock = m.host.Clock.Add(10 * time.Second)
	}
	check(t, "state", c.state(), wantedState(nodes))
	c.took()
	if !m.reconcile(nodes) {
		t.Error("a pass without a change fails")
	}
	for _, call := range c.took() {
		if !strings.HasPrefix(call, "GET ") {
			t.Errorf("a pass without a change calls %s", call)
		}
	}
}

// TestFailedCreateIsNotDeleted: while a port's pairs cannot be changed, a route
// must not come and go.
func TestFailedCreateIsNotDeleted(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11")
	nodes := []node{{"node-1", "10.0.0.11", "10.244.1.0/24"}}
	c.fail = func(call string, _ bool) int {
		if strings.HasPrefix(call, "PUT /network/v2.0/ports/") {
			return 503
		}
		return 0
	}
	m := newManager(t, c)
	for range 5 {
		m.reconcile(nodes)
		m.host.Clock = m.host.Clock.Add(10 * time.Second)
	}
	for _, call := range c.took() {
		if strings.HasSuffix(call, "/remove_extraroutes") {
			t.Errorf("%s", call)
		}
	}
	m.reconcile(nil) // the Node is deleted before its route ever worked
	m.host.Clock = m.host.Clock.Add(2 * time.Minute)
	c.fail = nil
	m.reconcile(nil)
	check(t, "state", c.state(), "")
}

// FuzzNames: Delete receives the names of routes. A foreign name never changes
// another route.
func FuzzNames(f *testing.F) {
	f.Add("10.244.1.0/24 via 10.0.0.11", "10.244.1.0/24", "node-1")
	f.Add("10.244.1.0/24 via ../../x", "10.244.1.0/24", "node-2")
	f.Add("", "10.244.2.0/24", "node-1")
	f.Fuzz(func(t *testing.T, name, cidr, target string) {
		c := newCloud()
		c.addNode("node-1", "10.0.0.11")
		m := newManager(t, c)
		if err := m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")); err != nil {
			t.Fatal(err)
		}
		err := m.delete(&abi.Route{Name: name, DestinationCidr: cidr, TargetNode: target})
		if cidr != "10.244.1.0/24" && c.state() == "" {
			t.Fatalf("deleting %q of %q as %q deleted another route (%v)", cidr, target, name, err)
		}
	})
}

// FuzzAnswers: for any answer of the cloud, a list is an error or has every
// route.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"router": {"routes": [{"destination": "10.244.1.0/24", "nexthop": "10.0.0.11"}]}}`,
		`{"ports": [{"id": "p", "device_id": "s", "fixed_ips": [{"ip_address": "10.0.0.11"}], "allowed_address_pairs": [{"ip_address": "10.244.1.0/24"}]}]}`,
		`{"server": {"id": "s", "name": "node-1"}}`)
	f.Add(`{"router": {"routes": [{}, {}]}}`, `{"ports": [null, {"fixed_ips": [{}]}, {"id": "q", "fixed_ips": [{}]}]}`, `{"server": null}`)
	f.Add(`{"router": {"routes": null}}`, `{"ports": {}}`, `{}`)
	f.Fuzz(func(t *testing.T, router, ports, server string) {
		c := newCloud()
		m := newManager(t, c)
		bodies := map[string]string{"routers": router, "ports": ports, "servers": server, "trunks": `{"trunks": []}`}
		m.host.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
			for kind, body := range bodies {
				if strings.Contains(req.Url, "/"+kind) {
					return &abi.HttpResponse{Status: 200, Body: []byte(body)}, nil
				}
			}
			return c.serve(req)
		}
		var said struct {
			Router struct{ Routes []any }
		}
		listed, err := m.r().List()
		if err == nil && (json.Unmarshal([]byte(router), &said) != nil || len(listed) != len(said.Router.Routes)) {
			t.Fatalf("%d routes of %s", len(listed), router)
		}
	})
}
