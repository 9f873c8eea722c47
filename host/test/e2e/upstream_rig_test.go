//go:build upstream

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
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

// What the manager has, and the guest must never have.
const (
	awsKeyID   = "AKIAWASMCCMTEST00001"
	awsSecret  = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYwasmccm"
	awsSession = "FwoGZXIvYXdzEBYaDHwasmccmSessionTokenOfARole"
)

// upstreamRig is a rig with moto behind a proxy.
type upstreamRig struct {
	*rig
	moto  *motoCloud
	proxy *motoProxy
	guest string // directory of the source
}

// awsPatience bounds each wait: compiling 78 MB takes minutes on a busy machine.
const awsPatience = 20 * time.Minute

func newUpstreamRig(t *testing.T, namespace string, machines int) *upstreamRig {
	t.Helper()
	u := &upstreamRig{rig: newRig(t, namespace), moto: newMoto(t, machines)}
	u.proxy = startMotoProxy(t, u.moto.url)
	u.guest = filepath.Join(u.dir, "provider")
	u.secrets(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last requests:\n%s", u.proxy.tail())
		}
	})
	return u
}

func (u *upstreamRig) until(ctx context.Context, t *testing.T, m *manager, what string, look func() (done bool, seen string)) {
	t.Helper()
	u.untilWithin(ctx, t, m, awsPatience, what, look)
}

// secrets are the keys of a role.
func (u *upstreamRig) secrets(t *testing.T) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "aws"}, StringData: map[string]string{"access_key_id": awsKeyID, "secret_access_key": awsSecret, "session_token": awsSession},
	}
	if _, err := u.client.CoreV1().Secrets(u.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// key changes the ID of the role's key.
func (u *upstreamRig) key(t *testing.T, id string) {
	t.Helper()
	patch := fmt.Sprintf(`{"stringData":{"access_key_id":%q}}`, id)
	if _, err := u.client.CoreV1().Secrets(u.namespace).Patch(t.Context(), "aws", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// cloudConfig is the file of --cloud-config, of the guest and of the native
// manager.
func (u *upstreamRig) cloudConfig() string {
	return fmt.Sprintf("[Global]\nZone = %s\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = kubernetes\n", awsZone, u.moto.vpc, u.moto.subnet)
}

// awsEnvironment is that of the guest, with keys to sign with that are nobody's,
// and of the native manager, with the real ones.
func (u *upstreamRig) awsEnvironment(id, secret string) map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": awsRegion,
		"AWS_ENDPOINT_URL_EC2": "http://" + u.proxy.ec2, "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING": "http://" + u.proxy.elb,
		"AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2": "http://" + u.proxy.elb,
	}
}

// offer puts a build of the guest and its configuration where the manager reads.
func (u *upstreamRig) offer(t *testing.T, module []byte) {
	t.Helper()
	settings, err := json.Marshal(map[string]any{ // YAML as well
		"env": u.awsEnvironment("AKIAHOST", "host-signs-again"), "cloudConfig": u.cloudConfig(),
		"requests": []map[string]any{{"host": "127.0.0.2", "credential": "ec2"}, {"host": "127.0.0.3", "credential": "elasticloadbalancing"}},
		"loopback": []string{"http://" + u.proxy.ec2, "http://" + u.proxy.elb},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(u.guest, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.yaml": settings, "provider.wasm": module} {
		path := filepath.Join(u.guest, name)
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

const awsProvider = `
- name: aws
  source: {directory: $DIR}
  grants:
  - {scheme: http, host: 127.0.0.2, port: $EC2, credentials: [ec2]}
  - {scheme: http, host: 127.0.0.3, port: $ELB, credentials: [elasticloadbalancing]}
  credentials:
  - {name: ec2, secret: {namespace: $NS, name: aws}, awsSigV4: {region: eu-central-1, service: ec2, sessionTokenKey: session_token}}
  - {name: elasticloadbalancing, secret: {namespace: $NS, name: aws}, awsSigV4: {region: eu-central-1, service: elasticloadbalancing, sessionTokenKey: session_token}}
  kube: {nodes: true}
  requests: {perSecond: 500, burst: 500, concurrent: 32}
  limits: {instances: 8, memory: 128Mi, module: 128Mi, compile: {memory: 3Gi, cpu: 20m, wall: 20m, output: 512Mi}}
  ops: {timeout: 2m, timeouts: {lb_ensure: 4m, lb_update: 4m, lb_delete: 4m}}
  rollout: {shadow: "Off", observe: "Off"}
`

// startGuest starts the released manager with the guest, and returns when it
// serves.
func (u *upstreamRig) startGuest(t *testing.T, name string, flags ...string) *manager {
	t.Helper()
	providers := strings.NewReplacer("$DIR", u.guest, "$EC2", portOfAddress(u.proxy.ec2), "$ELB", portOfAddress(u.proxy.elb)).Replace(awsProvider)
	cache := filepath.Join(u.build, "upstream-cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	m := u.startManager(t, name, append([]string{u.hostConfiguration(t, providers), "--provider-compilation-cache-dir=" + cache, "--allocate-node-cidrs=true"}, flags...)...)
	u.until(t.Context(), t, m, "the provider serves", m.readyz)
	return m
}

func portOfAddress(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// joinNodes registers Nodes as kubelets do, ready, with their pod networks.
func (u *upstreamRig) joinNodes(t *testing.T) {
	t.Helper()
	for i, name := range u.moto.privateDNS {
		node := joining(t, name)
		node.Spec.PodCIDR = podNetwork(i)
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		if _, err := u.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		u.ready(t, name, corev1.ConditionTrue)
	}
}

// awaitInitialized waits until no Node has the taint.
func (u *upstreamRig) awaitInitialized(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	u.until(ctx, t, m, "the Nodes are initialised", func() (bool, string) {
		nodes, err := u.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range nodes.Items {
			if slices.ContainsFunc(nodes.Items[i].Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider }) {
				return false, nodes.Items[i].Name
			}
		}
		return true, ""
	})
}

func podNetwork(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }

func (u *upstreamRig) podNetworks() (networks []string) {
	for i := range u.moto.instances {
		networks = append(networks, podNetwork(i))
	}
	slices.Sort(networks)
	return networks
}

func (u *upstreamRig) ready(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","message":"set by the test"}]}}`, status)
	if _, err := u.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// service makes a Service: a classic load balancer, or with kind nlb a network
// one.
//
// Node ports are given with ports, so that clouds can be compared.
func (u *upstreamRig) service(t *testing.T, name, kind string, ports ...int32) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}},
	}}
	for i, port := range ports {
		s.Spec.Ports[i].NodePort = port
	}
	if kind != "" {
		s.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"] = kind
	}
	if _, err := u.client.CoreV1().Services(u.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (u *upstreamRig) services(t *testing.T) []corev1.Service {
	t.Helper()
	list, err := u.client.CoreV1().Services(u.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// awaitBalancers waits until each Service has the host name of its load
// balancer, and the cloud has as many of both kinds.
func (u *upstreamRig) awaitBalancers(t *testing.T, m *manager, classic, network int) {
	t.Helper()
	u.until(t.Context(), t, m, "the Services have their load balancers", func() (bool, string) {
		for _, s := range u.services(t) {
			if s.DeletionTimestamp != nil || len(s.Status.LoadBalancer.Ingress) == 0 || !strings.Contains(s.Status.LoadBalancer.Ingress[0].Hostname, "elb") {
				return false, fmt.Sprint(s.Name, " ", s.Status.LoadBalancer.Ingress)
			}
		}
		gotClassic, gotNetwork := u.moto.balancers(t)
		return len(gotClassic) == classic && len(gotNetwork) == network, fmt.Sprint(gotClassic, gotNetwork)
	})
}

func (u *upstreamRig) awaitRoutes(t *testing.T, m *manager, want []string) {
	t.Helper()
	u.until(t.Context(), t, m, "the pod networks have routes", func() (bool, string) {
		got := u.moto.podRoutes(t)
		return slices.Equal(got, want), fmt.Sprint(got)
	})
}

// encodings of a secret that a guest could keep.
func encodings(secret string) [][]byte {
	return [][]byte{[]byte(secret), []byte(base64.StdEncoding.EncodeToString([]byte(secret))), []byte(url.QueryEscape(secret))}
}
