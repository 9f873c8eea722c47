//go:build openstack

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	lifeNodes    = 20
	lifeServices = 10
)

// TestOpenStackLife is the life of ten Services on twenty nodes: made, changed,
// with nodes that come and go, and deleted.
func TestOpenStackLife(t *testing.T) {
	o := newOpenStack(t, "life")
	servers := o.servers(t, lifeNodes, "node")
	m := o.start(t, "a", o.cloudConf(""))

	t.Run("nodes are initialised", func(t *testing.T) {
		for name := range servers {
			o.kubelet(t, name, "")
		}
		o.awaitInitialized(t.Context(), t, m)
		o.checkNodes(t, servers)
	})
	t.Run("services get their load balancers", func(t *testing.T) {
		var names []string
		for i := range lifeServices {
			names = append(names, fmt.Sprintf("s%d", i))
			o.service(t, names[i], nil, portsOf(i)...)
		}
		o.awaitOVN(t, m)
		o.checkNames(t, names...)
	})
	t.Run("ports change", func(t *testing.T) {
		for i := range lifeServices / 2 {
			o.changePorts(t, fmt.Sprintf("s%d", i), portsOf(i+1))
		}
		o.awaitOVN(t, m)
	})
	t.Run("nodes come", func(t *testing.T) {
		for name := range o.servers(t, 2, "late") {
			o.kubelet(t, name, "")
		}
		o.awaitInitialized(t.Context(), t, m)
		o.awaitOVN(t, m)
	})
	t.Run("nodes go", func(t *testing.T) {
		o.sdk(t, fmt.Sprintf("import openstack\nopenstack.connect(cloud='kubernetes').compute.delete_server(%q)", servers["node-0"]))
		o.heartbeat(t, "node-0", corev1.ConditionFalse)
		o.heartbeat(t, "node-1", corev1.ConditionFalse) // its server is there
		o.until(t.Context(), t, m, "the Node without a server is deleted", func() (bool, string) {
			_, err := o.client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		o.awaitOVN(t, m)
		if _, err := o.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil {
			t.Errorf("the Node whose server is there: %v", err)
		}
	})
	t.Run("services are deleted", func(t *testing.T) {
		services, err := o.client.CoreV1().Services(o.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range services.Items {
			o.removeService(t, services.Items[i].Name)
		}
		o.awaitOVN(t, m)
		o.checkNames(t)
		o.checkLeftovers(t)
	})
}

// portsOf differ from Service to Service, and from i to i+1.
func portsOf(i int) []corev1.ServicePort {
	ports := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	if i%2 == 1 {
		ports = append(ports, corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP})
	}
	if i%3 == 1 {
		ports = append(ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	}
	return ports
}

func (o *openStack) changePorts(t *testing.T, name string, ports []corev1.ServicePort) {
	t.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/ports", "value": ports}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.client.CoreV1().Services(o.namespace).Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkNodes compares what the Nodes say with what openstacksdk says.
func (o *openStack) checkNodes(t *testing.T, servers map[string]string) {
	t.Helper()
	for name, id := range servers {
		node, err := o.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "openstack:///" + id; node.Spec.ProviderID != want {
			t.Errorf("node %s has the provider ID %s, want %s", name, node.Spec.ProviderID, want)
		}
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != o.rc.ServerZone {
			t.Errorf("node %s has the zone %q, want %q", name, zone, o.rc.ServerZone)
		}
		if kind := node.Labels[corev1.LabelInstanceTypeStable]; kind != "m1.small" {
			t.Errorf("node %s has the type %q", name, kind)
		}
	}
}

// checkNames: one load balancer for each Service, by the names that
// cloud-provider-openstack gives, and one floating IP for each.
func (o *openStack) checkNames(t *testing.T, services ...string) {
	t.Helper()
	var cloud struct {
		Balancers, Floating []string
	}
	o.sdk(t, `
import openstack, json
c = openstack.connect(cloud="kubernetes")
print(json.dumps({"balancers": [l.name for l in c.load_balancer.load_balancers()], "floating": [i.floating_ip_address for i in c.network.ips()]}))`, &cloud)
	want := []string{}
	for _, service := range services {
		want = append(want, "kube_service_kubernetes_"+o.namespace+"_"+service)
	}
	slices.Sort(want)
	slices.Sort(cloud.Balancers)
	if !slices.Equal(cloud.Balancers, want) || len(cloud.Floating) != len(want) {
		t.Errorf("load balancers %v and %d floating IPs, want %v", cloud.Balancers, len(cloud.Floating), want)
	}
}

// checkLeftovers: ports of load balancers would be left, too.
func (o *openStack) checkLeftovers(t *testing.T) {
	t.Helper()
	var ports []string
	o.sdk(t, `
import openstack, json
c = openstack.connect(cloud="admin")
print(json.dumps([p.name for p in c.network.ports() if p.device_owner in ("ovn-lb-vip", "Octavia", "network:floatingip")]))`, &ports)
	if len(ports) > 0 {
		t.Errorf("ports are left: %v", ports)
	}
}

// TestOpenStackCrash makes and deletes Services while the manager is killed
// before and after each write to the cloud: the end is the same.
func TestOpenStackCrash(t *testing.T) {
	o := newOpenStack(t, "crash")
	m := o.start(t, "first", o.cloudConf(""))
	for name := range o.servers(t, 3, "node") {
		o.kubelet(t, name, "")
	}
	o.awaitInitialized(t.Context(), t, m)
	for n := range writesOfOne {
		for _, after := range []bool{false, true} {
			name := fmt.Sprintf("crash-%d-%v", n, after)
			t.Run(name, func(t *testing.T) {
				m = o.killed(t, m, name, n, after, func() { o.service(t, name, nil, portsOf(1)...) })
				o.checkNames(t, name)
				m = o.killed(t, m, name+"-deleted", n, after, func() { o.removeService(t, name) })
				o.checkNames(t)
				o.checkLeftovers(t)
			})
		}
	}
}

// writesOfOne: a load balancer with all of its parts, and a floating IP.
const writesOfOne = 2

// killed does something while the manager is killed at a write, and returns
// another manager, which has brought it to its end.
func (o *openStack) killed(t *testing.T, m *manager, name string, n int, after bool, do func()) *manager {
	t.Helper()
	o.killAtWrite(m, n, after)
	do()
	o.until(t.Context(), t, m, "the manager is killed", func() (bool, string) { return m.ended(), "" })
	o.proxy.setFault(nil)
	m = o.start(t, name, o.cloudConf(""))
	o.awaitOVN(t, m)
	return m
}

// killAtWrite kills the manager at the n-th write: before the cloud sees it,
// or after, so that the manager never sees the answer.
func (o *openStack) killAtWrite(m *manager, n int, after bool) {
	var writes atomic.Int64
	o.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || kindOfCall(r) == "POST keystone /v3/auth/tokens" || writes.Add(1) != int64(n)+1 {
			return false
		}
		if after {
			o.proxy.forward.ServeHTTP(discard{http.Header{}}, r)
		}
		m.kill()
		return true
	})
}

// discard is an answer that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
