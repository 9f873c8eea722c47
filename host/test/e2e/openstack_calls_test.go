//go:build openstack

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manyNodes = 200

// upstreamPeriods are upstream's own: the other tests are in a hurry.
func upstreamPeriods() []string {
	return []string{"--node-monitor-period=5s", "--node-status-update-frequency=5m", "--route-reconciliation-period=10s"}
}

// TestOpenStackCalls counts the calls of OpenStack's APIs for two hundred
// nodes: a refresh, one node that is added, and twenty Services.
func TestOpenStackCalls(t *testing.T) {
	o := newOpenStack(t, "calls")
	servers := o.servers(t, manyNodes, "node")
	for name := range servers {
		o.kubelet(t, name, "")
	}
	for i := range 4 {
		o.label(t, fmt.Sprintf("node-%d", i))
	}
	m := o.start(t, "init", o.cloudConf(""), upstreamPeriods()...)
	o.awaitInitialized(t.Context(), t, m)
	t.Run("200 nodes are initialised", func(t *testing.T) { o.printCalls(t) })
	m.kill()

	m = o.start(t, "refresh", o.cloudConf(""), append(upstreamPeriods(), "--node-status-update-frequency=70s")...)
	t.Run("one refresh", func(t *testing.T) { o.countRefresh(t, m) })
	m.kill()

	m = o.start(t, "add", o.cloudConf(""), upstreamPeriods()...)
	t.Run("one node is added", func(t *testing.T) {
		o.awaitListed(t, m)
		o.command(t, "", nil, "servers", "1", "added")
		o.proxy.reset()
		o.kubelet(t, "added-0", "")
		o.awaitInitialized(t.Context(), t, m)
		all, reads, writes := o.proxy.calls()
		t.Logf("%d reads, %d writes:\n%s", reads, writes, table(all))
		if all["GET nova /v2.1/servers/detail"] != 1 || all["GET neutron /v2.0/ports"] != 1 || writes != 0 {
			t.Errorf("calls:\n%s", table(all))
		}
		o.label(t, "added-0") // before, upstream would look at the Node again
	})
	t.Run("20 services", func(t *testing.T) {
		o.proxy.reset()
		for i := range 20 {
			o.service(t, fmt.Sprintf("s%d", i), map[string]string{"loadbalancer.openstack.org/node-selector": memberLabel})
		}
		o.awaitOVN(t, m)
		o.printCalls(t)
	})
	m.kill()
	o.proxy.reset()
	m = o.start(t, "again", o.cloudConf(""), upstreamPeriods()...)
	t.Run("the manager starts anew", func(t *testing.T) {
		o.awaitEnsured(t, m, 20)
		if _, _, writes := o.proxy.calls(); writes > 0 {
			t.Errorf("%d writes", writes)
		}
		o.printCalls(t)
	})
	t.Run("a node goes from 20 services", func(t *testing.T) {
		o.proxy.reset()
		if err := o.client.CoreV1().Nodes().Delete(t.Context(), "added-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		o.awaitOVN(t, m)
		o.printCalls(t)
	})
}

// memberLabel is on the Nodes that are members: OVN's provider takes them one
// by one, which for 200 of them in 20 load balancers lasts an hour. The number
// of calls does not depend on it: they go in one request.
const memberLabel = "wasm-ccm.dev/member"

func (o *openStack) label(t *testing.T, node string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, memberLabel)
	if _, err := o.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (o *openStack) printCalls(t *testing.T) {
	t.Helper()
	all, reads, writes := o.proxy.calls()
	t.Logf("%d reads, %d writes:\n%s", reads, writes, table(all))
}

// awaitListed waits for the listing that the Nodes which are there bring about.
func (o *openStack) awaitListed(t *testing.T, m *manager) {
	t.Helper()
	o.until(t.Context(), t, m, "the instances are listed", func() (bool, string) {
		listed := o.metrics(t, m).sum(`^wasm_ccm_provider_listings_total\{.*result="complete"`)
		return listed > 0, fmt.Sprint(listed)
	})
}

// awaitRefreshed waits until metadata of all Nodes was asked for n times.
func (o *openStack) awaitRefreshed(t *testing.T, m *manager, n int) {
	t.Helper()
	o.until(t.Context(), t, m, "all Nodes are refreshed", func() (bool, string) {
		served := o.metrics(t, m).sum(`^wasm_ccm_provider_node_answers_total\{from="listing",op="instance_metadata"`)
		return served >= float64(n*manyNodes), fmt.Sprint(served)
	})
}

// countRefresh: the second refresh of a manager has nothing else beside it.
func (o *openStack) countRefresh(t *testing.T, m *manager) {
	o.awaitRefreshed(t, m, 1)
	o.proxy.reset()
	o.awaitRefreshed(t, m, 2)
	all, reads, writes := o.proxy.calls()
	t.Logf("%d reads, %d writes:\n%s", reads, writes, table(all))
	const pages = manyNodes / 100
	if servers := all["GET nova /v2.1/servers/detail"]; servers > pages+1 {
		t.Errorf("%d pages of servers, want %d", servers, pages)
	}
	if ports := all["GET neutron /v2.0/ports"]; ports > pages {
		t.Errorf("%d pages of ports, want %d", ports, pages)
	}
	if direct := o.metrics(t, m).sum(`node_answers_total\{from="direct"`); direct > 0 {
		t.Errorf("%v Nodes were asked about directly", direct)
	}
	if writes > 0 {
		t.Errorf("%d writes", writes)
	}
}

// awaitEnsured waits until a manager has asked for n Services.
func (o *openStack) awaitEnsured(t *testing.T, m *manager, n int) {
	t.Helper()
	o.until(t.Context(), t, m, "the Services are asked for", func() (bool, string) {
		done := o.metrics(t, m).sum(`^wasm_ccm_provider_op_duration_seconds_count\{code="ok",op="lb_ensure"`)
		return done >= float64(n), fmt.Sprint(done)
	})
}

// What there is while nothing happens: making more takes Neutron minutes.
const quietServices, quietRoutes = 4, 3

// quietTime is how long nothing happens; OPENSTACK_QUIET=10m for the figure of
// the README.
func quietTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("OPENSTACK_QUIET")
	if text == "" {
		text = "1m"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("OPENSTACK_QUIET: %v", err)
	}
	return d
}

// TestOpenStackQuiet: nothing happens in the cluster, with upstream's periods
// and all loops, and so nothing is written to the cloud.
func TestOpenStackQuiet(t *testing.T) {
	o := newOpenStack(t, "quiet")
	i := 0
	for name := range o.servers(t, 20, "node") {
		cidr := ""
		if i < quietRoutes {
			cidr = fmt.Sprintf("10.244.%d.0/24", i)
		}
		o.kubelet(t, name, cidr)
		i++
	}
	conf := o.cloudConf("[Route]\nrouter-id = " + o.rc.Router.ID + "\n")
	m := o.start(t, "a", conf, upstreamPeriods()...)
	o.awaitInitialized(t.Context(), t, m)
	for i := range quietServices {
		o.service(t, fmt.Sprintf("s%d", i), nil)
	}
	o.awaitOVN(t, m)
	o.awaitRoutes(t, m)
	o.settle(t, m)

	o.proxy.reset()
	quiet := quietTime(t)
	<-time.After(quiet) // it is the passing of time that is tested
	all, reads, writes := o.proxy.calls()
	t.Logf("in %v of nothing, 20 nodes, %d Services, %d routes: %d reads, %d writes:\n%s", quiet, quietServices, quietRoutes, reads, writes, table(all))
	if writes > 0 {
		t.Errorf("%d writes while nothing happened", writes)
	}
}

// awaitRoutes waits until the router leads the pod network of each Node to it.
func (o *openStack) awaitRoutes(t *testing.T, m *manager) {
	t.Helper()
	o.until(t.Context(), t, m, "the router has the routes", func() (bool, string) {
		nodes, err := o.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		routes := o.routes(t)
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if hop := routes[n.Spec.PodCIDR]; n.Spec.PodCIDR != "" && !hasAddress(n, hop) {
				return false, fmt.Sprintf("%s leads to %q, not to %s", n.Spec.PodCIDR, hop, n.Name)
			}
		}
		return len(routes) == quietRoutes, fmt.Sprint(routes)
	})
}

// routes are those of OVN's routers: next hops by destination.
func (o *openStack) routes(t *testing.T) map[string]string {
	t.Helper()
	var rows struct{ Data [][2]string }
	o.nb(t, &rows, "--format=json", "--columns=ip_prefix,nexthop", "list", "logical_router_static_route")
	all := map[string]string{}
	for _, row := range rows.Data {
		if strings.HasPrefix(row[0], "10.244.") {
			all[row[0]] = row[1]
		}
	}
	return all
}

func hasAddress(node *corev1.Node, address string) bool {
	for _, a := range node.Status.Addresses {
		if a.Address == address {
			return true
		}
	}
	return false
}

// settle waits until the manager has written nothing for some seconds.
func (o *openStack) settle(t *testing.T, m *manager) {
	t.Helper()
	last, since := -1, time.Now()
	o.until(t.Context(), t, m, "nothing is written any more", func() (bool, string) {
		if _, _, writes := o.proxy.calls(); writes != last {
			last, since = writes, time.Now()
		}
		return time.Since(since) > 15*time.Second, fmt.Sprint(last)
	})
}
