//go:build upstream

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the manager has, and the guest must never have.
const (
	vsphereUser     = "administrator@vsphere.local"
	vspherePassword = `p4ss & <w0rd>" of wasm-ccm`
)

// vspherePatience bounds each wait: compiling the guest takes minutes on a busy
// machine.
const vspherePatience = 20 * time.Minute

// TestUpstreamVSphere is the life of a cluster with vSphere's own provider,
// unmodified, as a guest: it logs in with a password that the host has, and has
// no session either.
func TestUpstreamVSphere(t *testing.T) {
	u := newVSphereRig(t)
	module, err := os.ReadFile(filepath.Join(u.build, "vsphere.wasm"))
	if err != nil {
		t.Fatalf("%v; run make guests-upstream", err)
	}
	u.offer(t, module)
	m := u.startGuest(t)

	t.Run("nodes are initialised", func(t *testing.T) {
		for _, name := range u.told.Machines {
			if _, err := u.client.CoreV1().Nodes().Create(t.Context(), joining(t, name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			u.ready(t, name, corev1.ConditionTrue)
		}
		u.untilWithin(t.Context(), t, m, vspherePatience, "the Nodes are initialised", u.initialised)
	})
	t.Run("the guest has no secret", func(t *testing.T) { searchInstances(t, m, module, vsphereMemory, vspherePassword, checkVSphereMemory) })
	t.Run("a machine goes", func(t *testing.T) {
		u.destroy(t, "node-0")
		u.ready(t, "node-0", corev1.ConditionFalse)
		u.ready(t, "node-1", corev1.ConditionFalse) // its machine is there
		u.untilWithin(t.Context(), t, m, vspherePatience, "the Node without a machine is deleted", func() (bool, string) {
			_, err := u.client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		if _, err := u.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil {
			t.Errorf("the Node whose machine is there: %v", err)
		}
	})
}

// vsphereRig is a rig with a simulated vCenter.
type vsphereRig struct {
	*rig
	guest string // directory of the source
	told  struct {
		Host, Port, CA string
		Machines       map[string]string // names by UUID
	}
	in  io.Writer
	out *bufio.Reader
}

func newVSphereRig(t *testing.T) *vsphereRig {
	t.Helper()
	u := &vsphereRig{rig: newRig(t, "vsphere")}
	u.guest = filepath.Join(u.dir, "provider")
	cmd := exec.CommandContext(t.Context(), filepath.Join(u.build, "bin", "vcsim"), "-user", vsphereUser, "-machines", "4")
	cmd.Env = append(os.Environ(), "VCSIM_PASSWORD="+vspherePassword)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; run make vcsim", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	u.in, u.out = in, bufio.NewReader(out)
	if err := json.Unmarshal([]byte(u.line(t)), &u.told); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "vcenter"}, StringData: map[string]string{"username": vsphereUser, "password": vspherePassword}}
	if _, err := u.client.CoreV1().Secrets(u.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *vsphereRig) line(t *testing.T) string {
	t.Helper()
	line, err := u.out.ReadString('\n')
	if err != nil {
		t.Fatalf("vcsim: %v", err)
	}
	return strings.TrimSpace(line)
}

func (u *vsphereRig) destroy(t *testing.T, name string) {
	t.Helper()
	if _, err := fmt.Fprintln(u.in, name); err != nil {
		t.Fatal(err)
	}
	if got := u.line(t); got != name {
		t.Fatalf("vcsim destroyed %q", got)
	}
}

const vsphereCloudConfig = `
global: {port: $PORT, insecureFlag: true}
vcenter:
  one: {server: $HOST, user: nobody, password: the-host-has-it, datacenters: [DC0]}
labels: {region: k8s-region, zone: k8s-zone}
`

// offer puts the guest and its configuration where the manager reads.
func (u *vsphereRig) offer(t *testing.T, module []byte) {
	t.Helper()
	settings, err := json.Marshal(map[string]any{ // YAML as well
		"cloudConfig": u.replace(vsphereCloudConfig), "verbosity": 2,
		"requests": []map[string]any{
			{"host": u.told.Host, "pathPrefix": "/sdk", "credential": "vcenter", "session": true},
			{"host": u.told.Host, "pathPrefix": "/rest/", "credential": "vcenter-tags", "session": true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(u.guest, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.yaml": settings, "provider.wasm": module} {
		if err := os.WriteFile(filepath.Join(u.guest, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (u *vsphereRig) replace(text string) string {
	return strings.NewReplacer("$HOST", u.told.Host, "$PORT", u.told.Port, "$DIR", u.guest, "$CA", fmt.Sprintf("%q", u.told.CA)).Replace(text)
}

const vsphereProvider = `
- name: vsphere
  source: {directory: $DIR}
  grants:
  - {host: $HOST, port: $PORT, pathPrefix: /sdk, methods: [POST], credentials: [vcenter], caBundle: $CA}
  - {host: $HOST, port: $PORT, pathPrefix: /rest/, credentials: [vcenter-tags], caBundle: $CA}
  credentials:
  - name: vcenter
    secret: {namespace: $NS, name: vcenter}
    publicKeys: [username]
    bodyTemplate:
      placeholder: the-host-has-it
      path: /sdk
      contentType: text/xml; charset=utf-8
      body: |
        <Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Login xmlns="urn:vim25">
        <_this type="SessionManager">SessionManager</_this>
        <userName>$(username)</userName><password>$(password)</password></Login></Body></Envelope>
    session: {cookie: vmware_soap_session}
  - name: vcenter-tags
    secret: {namespace: $NS, name: vcenter}
    basic: {}
    session: {header: vmware-api-session-id, field: value}
  kube: {nodes: true}
  requests: {perSecond: 500, burst: 500, concurrent: 32}
  limits: {instances: 2, memory: 128Mi, module: 128Mi, compile: {memory: 3Gi, cpu: 20m, wall: 20m, output: 512Mi}}
  ops: {timeout: 2m}
  rollout: {shadow: "Off", observe: "Off"}
`

func (u *vsphereRig) startGuest(t *testing.T) *manager {
	t.Helper()
	cache := filepath.Join(u.build, "upstream-cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	m := u.startManager(t, "a", u.hostConfiguration(t, u.replace(vsphereProvider)), "--provider-compilation-cache-dir="+cache)
	u.untilWithin(t.Context(), t, m, vspherePatience, "the provider serves", m.readyz)
	return m
}

func (u *vsphereRig) ready(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","message":"set by the test"}]}}`, status)
	if _, err := u.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// initialised reports whether each Node is what vCenter has: its UUID, the tags of
// the datacenter, the address that its tools tell.
func (u *vsphereRig) initialised() (bool, string) {
	for uuid, name := range u.told.Machines {
		node, err := u.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		address := ""
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				address = a.Address
			}
		}
		l := node.Labels
		if node.Spec.ProviderID != "vsphere://"+uuid || l[corev1.LabelTopologyZone] != "zone-a" || l[corev1.LabelTopologyRegion] != "region-a" ||
			!strings.HasPrefix(address, "10.0.0.1") || !strings.HasPrefix(l[corev1.LabelInstanceTypeStable], "vsphere-vm.cpu-") {
			return false, fmt.Sprintf("%s: %q, want %s; %q; labels %v; taints %v", name, node.Spec.ProviderID, uuid, address, l, node.Spec.Taints)
		}
	}
	return true, ""
}

// vsphereMemory is what an instance has when it has served: the module's data has
// half of it.
const vsphereMemory = 64 << 20

// checkVSphereMemory looks for the password in the memory of an instance.
func checkVSphereMemory(t *testing.T, memory []byte) (configured bool) {
	t.Helper()
	for _, text := range append(encodings(vspherePassword), []byte("p4ss &amp; &lt;w0rd&gt;"), []byte(`p4ss \u0026`)) {
		if i := bytes.Index(memory, text); i >= 0 {
			t.Errorf("an instance has the password at %#x: %q", i, memory[max(0, i-64):i+64])
		}
	}
	return bytes.Contains(memory, []byte("the-host-has-it"))
}
