package routes_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLifeOfARouteAndItsCalls(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11")
	m := newManager(t, c)
	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	check(t, "calls of a create", c.took(), []string{"GET /ports", "GET /routers/ROUTER", "PUT /routers/ROUTER/add_extraroutes", "GET /routers/ROUTER", "PUT /ports/port-node-1"})
	check(t, "state", c.state(), "10.244.1.0/24 via 10.0.0.11\nport-node-1 allows 10.244.1.0/24")

	check(t, "list", m.list(t), []string{"10.244.1.0/24 to node-1"})
	check(t, "calls of a list", c.took(), []string{"GET /routers/ROUTER"})

	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	check(t, "calls of a second create", c.took(), []string{"GET /ports", "GET /routers/ROUTER"})

	listed, err := m.r().List()
	must(t, err)
	c.took()
	must(t, m.delete(listed[0]))
	check(t, "calls of a delete", c.took(), []string{"GET /ports", "PUT /ports/port-node-1", "GET /routers/ROUTER", "PUT /routers/ROUTER/remove_extraroutes", "GET /routers/ROUTER", "GET /ports/port-node-1"})
	check(t, "state", c.state(), "")
	c.took()
	must(t, m.delete(listed[0]))
	check(t, "calls of a second delete", c.took(), []string{"GET /ports", "GET /routers/ROUTER"})
	check(t, "list", m.list(t), []string{})
}

// Without the read after it nobody knows whether OVN has the change.
func TestAChangeThatDidNotComeToItsEndIsSentAgain(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11")
	m := newManager(t, c)
	r := route("node-1", "10.244.1.0/24", "10.0.0.11")
	for call, ask := range map[string]func() error{
		"PUT /routers/ROUTER/add_extraroutes": func() error { return m.create(r) },
		"PUT /routers/ROUTER/remove_extraroutes": func() error {
			return m.delete(&abi.Route{Name: "10.244.1.0/24 via 10.0.0.11", DestinationCidr: "10.244.1.0/24"})
		},
	} {
		must(t, m.create(r))
		if strings.Contains(call, "add_") {
			must(t, m.delete(&abi.Route{Name: "10.244.1.0/24 via 10.0.0.11", DestinationCidr: "10.244.1.0/24"}))
		}
		changed := false
		c.fail = func(now string, done bool) int {
			if changed && strings.HasPrefix(now, "GET /network/v2.0/routers/") {
				return 503
			}
			changed = changed || done && strings.HasSuffix(now, "_extraroutes")
			return 0
		}
		if err := ask(); err == nil {
			t.Errorf("%s: no error without the read behind it", call)
		}
		c.fail = nil
		c.took()
		must(t, ask())
		check(t, call+" again", slices.Contains(c.took(), call), true)
	}
}

func TestListAfterARestart(t *testing.T) {
	c := newCloud()
	want := []string{}
	for i := range 200 {
		name, address, cidr := fmt.Sprintf("Node-%d", i), fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("10.244.%d.0/24", i)
		c.addNode(name, address).Pairs = []map[string]string{{"ip_address": "10.244.0.0/16"}}
		c.routes = append(c.routes, extraRoute{cidr, address})
		want = append(want, cidr+" to "+strings.ToLower(name))
	}
	m := newManager(t, c)
	slices.Sort(want)
	check(t, "list", m.list(t), want)
	check(t, "calls with 200 routes", c.took(), []string{"GET /routers/ROUTER", "GET /ports", "GET /ports", "GET /ports", "GET /compute/servers"})
	m.host.Clock = m.host.Clock.Add(4 * time.Minute)
	check(t, "list", m.list(t), want)
	check(t, "calls when all have been seen", c.took(), []string{"GET /routers/ROUTER"})
	m.host.Clock = m.host.Clock.Add(2 * time.Minute)
	m.list(t)
	check(t, "calls after five minutes", len(c.took()), 5)
}

func TestListShowsWhatIsWrong(t *testing.T) {
	c := newCloud()
	c.addNode("whole", "10.0.0.1").Pairs = []map[string]string{{"ip_address": "10.244.1.0/24"}}
	c.addNode("half", "10.0.0.2").Pairs = []map[string]string{{"ip_address": "10.244.9.0/24"}}
	c.addNode("open", "10.0.0.3").Secured = false
	c.addNode("hidden-cell", "10.0.0.4").Secured = false
	c.addNode("a b", "10.0.0.5").Secured = false
	c.addNode("other-network", "10.0.0.1").NetworkID = "elsewhere"
	c.addNode("vip", "10.0.0.7").DeviceID = "lb-1"
	c.addNode("parent", "192.0.2.1")
	c.addNode("child", "10.0.0.8").Secured = false
	c.ports[len(c.ports)-1].DeviceID = ""
	c.trunks = []any{map[string]any{"port_id": "port-parent", "sub_ports": []any{map[string]string{"port_id": "port-child"}}}}
	for i := 1; i <= 8; i++ {
		c.routes = append(c.routes, extraRoute{fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("10.0.0.%d", i)})
	}
	m := newManager(t, c)
	want := []string{
		"10.244.1.0/24 to whole", "10.244.2.0/24 to half (addresses [])", "10.244.3.0/24 to open", "10.244.4.0/24 to hidden-cell",
		"10.244.5.0/24 to 10.0.0.5 (blackhole)", "10.244.6.0/24 to 10.0.0.6 (blackhole)", "10.244.7.0/24 to 10.0.0.7 (blackhole)", "10.244.8.0/24 to parent",
	}
	check(t, "list", m.list(t), want)
	c.took()
	check(t, "list again", m.list(t), want)
	check(t, "calls", c.took(), []string{"GET /routers/ROUTER"})
	listed, err := m.r().List()
	must(t, err)
	if !listed[0].HasTargetNodeAddresses {
		t.Error("the half route is not the first one: upstream would delete and create it at the same time")
	}
}

func TestListIsNeverPartial(t *testing.T) {
	for _, call := range []string{"GET /network/v2.0/routers/" + routerID, "GET /network/v2.0/ports", "GET /compute/servers", "GET /compute/servers/server-hidden-9"} {
		for _, status := range []int{200, 401, 403, 429, 500, 503} {
			c := newCloud()
			for i := range 10 {
				name := fmt.Sprintf("hidden-%d", i)
				c.addNode(name, fmt.Sprintf("10.0.0.%d", i))
				c.routes = append(c.routes, extraRoute{fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("10.0.0.%d", i)})
			}
			c.fail = func(of string, _ bool) int {
				if of == call {
					return status // with an empty object
				}
				return 0
			}
			listed, err := newManager(t, c).r().List()
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(call, "GET ")) {
				t.Errorf("%s answers %d: %d routes, error %v", call, status, len(listed), err)
			}
		}
	}
}

func TestWrongRouter(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		c := newCloud()
		c.atomic, c.router = atomic, "another"
		c.addNode("node-1", "10.0.0.11")
		m := newManager(t, c)
		_, listErr := m.r().List()
		createErr := m.create(route("node-1", "10.244.1.0/24", "10.0.0.11"))
		for _, err := range []error{listErr, createErr} {
			if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), `[Route] router-id in cloud.conf: there is no router "`+routerID) {
				t.Errorf("atomic %v: %v (%v)", atomic, err, sdk.CodeOf(err))
			}
		}
		check(t, "state", c.state(), "")
	}
}

func TestRefusals(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11", "192.0.2.1")
	m := newManager(t, c)
	for _, test := range []struct {
		route *abi.Route
		code  abi.Code
		want  string
	}{
		{route("node-1", "10.244.1.0/24"), abi.CodeInvalid, "node node-1 has no InternalIP of IPv4"},
		{route("node-1", "fd01::/64", "10.0.0.11"), abi.CodeInvalid, "node node-1 has no InternalIP of IPv6"},
		{route("node-1", "10.244.1.7/24", "10.0.0.11"), abi.CodeInvalid, `has to be written "10.244.1.0/24"`},
		{route("node-1", "FD01::0/64", "fd00::1"), abi.CodeInvalid, `has to be written "fd01::/64"`},
		{route("node-1", "pods", "10.0.0.11"), abi.CodeInvalid, `"pods" is not a CIDR`},
		{route("node-2", "10.244.1.0/24", "10.0.0.12"), abi.CodeInstanceNotFound, "no port of this project has its address 10.0.0.12"},
		{route("node-1", "10.244.1.0/24", "192.0.2.1"), abi.CodeInvalid, "the nexthop is not connected with router"},
	} {
		err := m.create(test.route)
		if sdk.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v (%v), want %q (%v)", test.route, err, sdk.CodeOf(err), test.want, test.code)
		}
	}
	check(t, "state", c.state(), "")
}

func TestPairsOfOthersStay(t *testing.T) {
	c := newCloud()
	p := c.addNode("node-1", "10.0.0.11")
	p.Pairs = []map[string]string{{"ip_address": "10.0.0.200", "mac_address": "fa:16:3e:aa:bb:cc"}, {"ip_address": "10.245.0.0/16", "mac_address": "fa:16:3e:00:00:01"}}
	m := newManager(t, c)
	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	must(t, m.create(route("node-1", "10.245.1.0/24", "10.0.0.11")))
	listed, err := m.r().List()
	must(t, err)
	for _, r := range listed {
		must(t, m.delete(r))
	}
	check(t, "pairs", p.Pairs, []map[string]string{{"ip_address": "10.0.0.200", "mac_address": "fa:16:3e:aa:bb:cc"}, {"ip_address": "10.245.0.0/16", "mac_address": "fa:16:3e:00:00:01"}})
	check(t, "routes", len(c.routes), 0)
}

func TestDeleteWithoutTheNode(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11")
	m := newManager(t, c)
	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	c.removeNode("node-1")
	m = newManager(t, c)
	check(t, "list", m.list(t), []string{"10.244.1.0/24 to 10.0.0.11 (blackhole)"})
	listed, err := m.r().List()
	must(t, err)
	c.took()
	must(t, m.delete(listed[0]))
	check(t, "calls", c.took(), []string{"GET /ports", "GET /routers/ROUTER", "PUT /routers/ROUTER/remove_extraroutes", "GET /routers/ROUTER"})
	check(t, "state", c.state(), "")
}

func TestDeleteByNodeAndDestination(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11")
	c.addNode("node-2", "10.0.0.12")
	m := newManager(t, c)
	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	must(t, m.create(route("node-2", "10.244.2.0/24", "10.0.0.12")))
	must(t, m.delete(route("node-2", "10.244.1.0/24", "10.0.0.12")))
	must(t, m.delete(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	check(t, "list", m.list(t), []string{"10.244.2.0/24 to node-2"})
}

func TestIPv6SpelledByTheCloud(t *testing.T) {
	c := newCloud()
	c.addNode("node-1", "10.0.0.11", "fd00::11").Pairs = []map[string]string{{"ip_address": "FD01:0::/64"}}
	c.routes = []extraRoute{{"fd01:0:0::/64", "fd00::11"}}
	m := newManager(t, c)
	check(t, "list", m.list(t), []string{"fd01::/64 to node-1"})
	listed, err := m.r().List()
	must(t, err)
	must(t, m.delete(listed[0]))
	check(t, "state", c.state(), "")
	must(t, m.create(route("node-1", "fd01:0:0:1::/64", "10.0.0.11", "fd00::11")))
	check(t, "state", c.state(), "fd01:0:0:1::/64 via fd00::11\nport-node-1 allows fd01:0:0:1::/64")
}

func TestConcurrentCreatesLoseNothing(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		c := newCloud()
		c.atomic = atomic
		const nodes = 25 // of two families each, so two changes per port
		for i := range nodes {
			c.addNode(fmt.Sprintf("node-%d", i), fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("fd00::%x", i+1))
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8) // instances of a guest
		for i := range 2 * nodes {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				cidr := fmt.Sprintf("10.244.%d.0/24", i/2)
				if i%2 == 1 {
					cidr = fmt.Sprintf("fd01:0:0:%x::/64", i/2+1)
				}
				r := route(fmt.Sprintf("node-%d", i/2), cidr, fmt.Sprintf("10.0.0.%d", i/2), fmt.Sprintf("fd00::%x", i/2+1))
				m := newManager(t, c)
				err := m.create(r)
				for sdk.CodeOf(err) == abi.CodeRetryAfter {
					err = m.create(r)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		check(t, "routes", len(c.routes), 2*nodes)
		// Two changes of one port may undo each other; the next list notices.
		var all []node
		for i := range nodes {
			all = append(all, node{fmt.Sprintf("node-%d", i), fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("10.244.%d.0/24", i)},
				node{fmt.Sprintf("node-%d", i), fmt.Sprintf("fd00::%x", i+1), fmt.Sprintf("fd01:0:0:%x::/64", i+1)})
		}
		newManager(t, c).reconcile(all)
		if state := c.state(); strings.Contains(state, "OVN") || len(strings.Split(state, "\n")) != 4*nodes {
			t.Errorf("atomic %v: lost something:\n%s", atomic, state)
		}
		check(t, "list", len(newManager(t, c).list(t)), 2*nodes)
	}
}

// TestRewriteYieldsToOthers: others write between each read and write.
func TestRewriteYieldsToOthers(t *testing.T) {
	c := newCloud()
	c.atomic = false
	c.addNode("node-1", "10.0.0.11")
	left := 3
	c.meddle = func(call string) {
		if call == "PUT /network/v2.0/routers/"+routerID && left > 0 {
			left--
			c.mu.Lock()
			c.routes = append(c.routes, extraRoute{fmt.Sprintf("172.16.%d.0/24", left%250), "10.0.0.99"})
			c.revision++
			c.mu.Unlock()
		}
	}
	m := newManager(t, c)
	must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
	check(t, "routes", len(c.routes), 4)
	left = 1000
	err := m.create(route("node-1", "10.244.2.0/24", "10.0.0.11"))
	if sdk.CodeOf(err) != abi.CodeRetryAfter {
		t.Errorf("always outrun: %v", err)
	}
}

// TestStaleChange: during a change another one is committed, which Neutron then
// takes from OVN, or restores there.
func TestStaleChange(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		c := newCloud()
		c.atomic = atomic
		c.addNode("node-1", "10.0.0.11")
		m := newManager(t, c)
		must(t, m.create(route("node-1", "10.244.1.0/24", "10.0.0.11")))
		must(t, m.create(route("node-1", "10.244.2.0/24", "10.0.0.11")))
		added := false
		c.race = func(call string) {
			if strings.HasPrefix(call, "PUT /network/v2.0/routers/") && !added {
				added = true
				c.mu.Lock()
				c.commit(c.view(), append(slices.Clone(c.routes[1:]), extraRoute{"172.16.0.0/24", "10.0.0.99"}))
				c.mu.Unlock()
			}
		}
		must(t, m.create(route("node-1", "10.244.3.0/24", "10.0.0.11")))
		check(t, fmt.Sprintf("atomic %v: state", atomic), c.state(), strings.Join([]string{
			"10.244.2.0/24 via 10.0.0.11", "10.244.3.0/24 via 10.0.0.11", "172.16.0.0/24 via 10.0.0.99",
			"port-node-1 allows 10.244.1.0/24", "port-node-1 allows 10.244.2.0/24", "port-node-1 allows 10.244.3.0/24",
		}, "\n"))
	}
}

// TestLostPair: Neutron lets both of two changes of a port pass. The route that
// loses its pair had been seen whole.
func TestLostPair(t *testing.T) {
	c := newCloud()
	p := c.addNode("node-1", "10.0.0.11", "fd00::11")
	m := newManager(t, c)
	four, six := route("node-1", "10.244.1.0/24", "10.0.0.11", "fd00::11"), route("node-1", "fd01::/64", "10.0.0.11", "fd00::11")
	raced := false
	c.race = func(call string) {
		if call == "PUT /network/v2.0/ports/port-node-1" && !raced {
			raced = true
			must(t, m.create(six))
		}
	}
	must(t, m.create(four))
	check(t, "pairs after the race", len(p.Pairs), 1)
	nodes := []node{{"node-1", "10.0.0.11", "10.244.1.0/24"}, {"node-1", "fd00::11", "fd01::/64"}}
	check(t, "list", m.list(t), []string{"10.244.1.0/24 to node-1", "fd01::/64 to node-1 (addresses [])"})
	m.reconcile(nodes)
	check(t, "state", c.state(), wantedState(nodes))

	listed, err := m.r().List()
	must(t, err)
	raced = false
	c.race = func(call string) {
		if call == "PUT /network/v2.0/ports/port-node-1" && !raced {
			raced = true
			must(t, m.delete(listed[1]))
		}
	}
	must(t, m.delete(listed[0]))
	m.reconcile(nil)
	check(t, "routes after deletes", len(c.routes), 0)
}
