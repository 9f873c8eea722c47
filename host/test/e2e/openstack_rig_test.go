//go:build openstack

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// The tests with the build tag openstack need a real OpenStack:
// testdata/openstack/up starts one, make test-openstack does all. What they
// assert is read with ovn-nbctl and openstacksdk.

// openrc is the file that testdata/openstack/up writes.
type openrc struct {
	AuthURL string `json:"auth_url"`
	Region  string
	Users   map[string]struct {
		Username, Password, Domain, Project string
		ProjectID                           string `json:"project_id"`
	}
	ExternalNetwork struct{ ID, Name, Subnet4, Subnet6 string } `json:"external_network"`
	Network         struct{ ID, Name, Subnet4, Subnet6 string }
	Router          struct{ ID string }
	ServerZone      string `json:"server_zone"`
}

// openStack is a rig beside a real OpenStack, with a proxy between.
type openStack struct {
	*rig
	proxy *apiProxy
	rc    openrc
}

func newOpenStack(t *testing.T, namespace string) *openStack {
	t.Helper()
	path := os.Getenv("OPENSTACK_RC")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("OPENSTACK_RC: %v: run make test-openstack", err)
	}
	o := &openStack{}
	if err := json.Unmarshal(data, &o.rc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	o.rig, o.proxy = newRig(t, namespace), startProxy(t)
	o.sdk(t, sweep)
	t.Cleanup(func() { o.sdk(t, sweep) })
	o.secret(t, o.rc.Users["kubernetes"].Password)
	o.put(t.Context(), t, "signer-keystone", o.wasm(t, "signer-keystone.wasm"), "")
	return o
}

// cloudPatience bounds each wait: a load balancer of 20 members took up to a
// minute on two busy cores.
const cloudPatience = 10 * time.Minute

func (o *openStack) until(ctx context.Context, t *testing.T, m *manager, what string, look func() (done bool, seen string)) {
	t.Helper()
	o.untilWithin(ctx, t, m, cloudPatience, what, look)
}

// sweep removes what tests leave in the project.
const sweep = `
import openstack, time
c = openstack.connect(cloud="kubernetes")
for lb in c.load_balancer.load_balancers(): c.load_balancer.delete_load_balancer(lb, cascade=True)
for ip in c.network.ips(): c.network.delete_ip(ip)
for s in c.compute.servers(): c.compute.delete_server(s)
r = c.network.find_router("k8s")
if r.routes: c.network.update_router(r, routes=[])
for _ in range(600):
    if not list(c.compute.servers()) and not list(c.load_balancer.load_balancers()): break
    time.sleep(0.2)
else: raise SystemExit("servers or load balancers do not go away")
`

// sdk runs a script with openstacksdk, which prints JSON, into out if given.
func (o *openStack) sdk(t *testing.T, script string, out ...any) {
	t.Helper()
	o.command(t, script, out, "os")
}

// nb runs ovn-nbctl, as sdk.
func (o *openStack) nb(t *testing.T, out any, args ...string) {
	t.Helper()
	o.command(t, "", []any{out}, "nb", args...)
}

func (o *openStack) command(t *testing.T, stdin string, out []any, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join("../../../testdata/openstack", name), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, stderr.String())
	}
	if len(out) > 0 {
		if err := json.Unmarshal(text, out[0]); err != nil {
			t.Fatalf("%s %v: %v in %s", name, args, err, text)
		}
	}
}

// servers makes servers and returns their IDs by name.
func (o *openStack) servers(t *testing.T, n int, prefix string) map[string]string {
	t.Helper()
	o.command(t, "", nil, "servers", fmt.Sprint(n), prefix)
	ids := map[string]string{}
	o.sdk(t, `
import openstack, json
print(json.dumps({s.name: s.id for s in openstack.connect(cloud="kubernetes").compute.servers()}))`, &ids)
	maps.DeleteFunc(ids, func(name, _ string) bool { return !strings.HasPrefix(name, prefix+"-") })
	if len(ids) != n {
		t.Fatalf("%d servers %s, want %d", len(ids), prefix, n)
	}
	return ids
}

// cloudConf is that of the tests; the lines are added to it.
func (o *openStack) cloudConf(lines string) string {
	return fmt.Sprintf(`[Global]
auth-url = %s
region = %s

[LoadBalancer]
lb-provider = ovn
lb-method = SOURCE_IP_PORT
floating-network-id = %s
subnet-id = %s
%s`, o.proxy.url(o.rc.AuthURL), o.rc.Region, o.rc.ExternalNetwork.ID, o.rc.Network.Subnet4, lines)
}

func (o *openStack) secret(t *testing.T, password string) {
	t.Helper()
	user := o.rc.Users["kubernetes"]
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "openstack"}, StringData: map[string]string{
		"username": user.Username, "user_domain_name": user.Domain, "password": password, "project_name": user.Project, "project_domain_name": user.Domain,
	}}
	secrets := o.client.CoreV1().Secrets(o.namespace)
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

const openStackProvider = `
- name: openstack
  source: {configMap: {namespace: $NS, name: provider}}
  grants: [{scheme: http, host: 127.0.0.1, port: $PROXY_PORT, credentials: [openstack]}]
  credentials:
  - name: openstack
    secret: {namespace: $NS, name: openstack}
    publicKeys: [username, user_domain_name, project_name, project_domain_name]
    signer:
      source: {configMap: {namespace: $NS, name: signer-keystone}}
      config: "auth_url: http://$PROXY/p5000/v3"
      tokens: [{url: "http://$PROXY/p5000/v3/auth/tokens"}]
  requests: {perSecond: 100, burst: 100, concurrent: 16}
  limits: {instances: 16}
  ops: {timeouts: {lb_ensure: 2m, lb_update: 2m, lb_delete: 2m}}
  rollout: {shadow: "Off", observe: "Off"}
`

// start starts a manager with the provider.
func (o *openStack) start(t *testing.T, name, cloudConf string, flags ...string) *manager {
	t.Helper()
	_, port, _ := strings.Cut(o.proxy.address, ":")
	providers := strings.NewReplacer("$PROXY_PORT", port, "$PROXY", o.proxy.address).Replace(openStackProvider)
	o.put(t.Context(), t, configMap, o.wasm(t, "openstack.wasm"), cloudConf)
	m := o.startManager(t, name, append([]string{o.hostConfiguration(t, providers)}, flags...)...)
	o.until(t.Context(), t, m, "the provider serves", m.readyz)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last requests:\n%s", o.proxy.tail())
		}
	})
	return m
}

// kubelet registers a Node, ready, that waits for its cloud provider.
func (o *openStack) kubelet(t *testing.T, name, podCIDR string) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}
	if podCIDR != "" {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	}
	if _, err := o.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.heartbeat(t, name, corev1.ConditionTrue)
}

// heartbeat sets the Ready condition of a Node.
func (o *openStack) heartbeat(t *testing.T, name string, ready corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","message":"set by the test"}]}}`, ready)
	if _, err := o.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// service makes a Service of type LoadBalancer.
func (o *openStack) service(t *testing.T, name string, annotations map[string]string, ports ...corev1.ServicePort) {
	t.Helper()
	if len(ports) == 0 {
		ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports}}
	if _, err := o.client.CoreV1().Services(o.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (o *openStack) removeService(t *testing.T, name string) {
	t.Helper()
	if err := o.client.CoreV1().Services(o.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// vips are the load balancers that OVN has: which address and port leads to
// which members.
type vips map[string][]string

// ovn reads OVN's own database.
func (o *openStack) ovn(t *testing.T) vips {
	t.Helper()
	var rows struct{ Data [][]json.RawMessage }
	o.nb(t, &rows, "--format=json", "--columns=protocol,vips", "list", "load_balancer")
	all := vips{}
	for _, row := range rows.Data {
		var protocol any
		var pairs []json.RawMessage // ["map", [[vip, members], ...]]
		var entries [][2]string
		for _, err := range []error{json.Unmarshal(row[0], &protocol), json.Unmarshal(row[1], &pairs), json.Unmarshal(pairs[1], &entries)} {
			if err != nil {
				t.Fatalf("ovn-nbctl: %v in %s", err, row)
			}
		}
		for _, entry := range entries {
			members := strings.Split(entry[1], ",")
			slices.Sort(members)
			all[fmt.Sprint(entry[0], "/", protocol)] = members
		}
	}
	return all
}

// wanted is what OVN must have for the Services of the cluster: each port of
// each address leads to the node port of all Nodes, also those that are not
// ready: upstream leaves them to the health checks (KEP-3458).
func (o *openStack) wanted(ctx context.Context, t *testing.T) (want vips, unready string) {
	t.Helper()
	services, err := o.client.CoreV1().Services(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := o.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want = vips{}
	for i := range services.Items {
		s := &services.Items[i]
		if s.DeletionTimestamp != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
			return nil, s.Name + " is not done"
		}
		for _, port := range s.Spec.Ports {
			key := fmt.Sprintf("%s:%d/%s", s.Status.LoadBalancer.Ingress[0].IP, port.Port, strings.ToLower(string(port.Protocol)))
			want[key] = members(nodes.Items, s.Annotations["loadbalancer.openstack.org/node-selector"], port.NodePort)
		}
	}
	return want, ""
}

func members(nodes []corev1.Node, selector string, port int32) (all []string) {
	for i := range nodes {
		if _, has := nodes[i].Labels[selector]; selector != "" && !has {
			continue
		}
		for _, a := range nodes[i].Status.Addresses {
			if a.Type == corev1.NodeInternalIP && !strings.Contains(a.Address, ":") {
				all = append(all, fmt.Sprintf("%s:%d", a.Address, port))
				break
			}
		}
	}
	slices.Sort(all)
	return all
}

// awaitOVN waits until OVN has what the Services say, and nothing else but the
// internal address of each.
func (o *openStack) awaitOVN(t *testing.T, m *manager) {
	t.Helper()
	o.until(t.Context(), t, m, "OVN has the load balancers of the Services", func() (bool, string) {
		want, unready := o.wanted(t.Context(), t)
		if unready != "" {
			return false, unready
		}
		return compare(want, o.ovn(t))
	})
}

// compare: OVN has each of them twice, by the floating address and by the
// internal one; a Service with an internal address has one.
func compare(want, got vips) (same bool, difference string) {
	for key, members := range want {
		if !slices.Equal(got[key], members) {
			return false, fmt.Sprintf("%s leads to %v, want %v", key, got[key], members)
		}
	}
	internal := 0
	for key := range got {
		if strings.HasPrefix(key, "10.") {
			internal++
		} else if want[key] == nil {
			return false, key + " is nobody's"
		}
	}
	if internal != len(want) {
		return false, fmt.Sprintf("%d internal ports of load balancers, want %d", internal, len(want))
	}
	return true, ""
}
