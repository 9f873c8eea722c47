//go:build openstack

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
)

// TestOpenStackConforms runs the conformance kit as an author of a provider
// does, with what OVN and openstacksdk say as the witness. OPENSTACK_CONFORMANCE
// are further flags: "--only=REGEXP"; by default ops crash at writes only,
// since each position is a life of a load balancer.
func TestOpenStackConforms(t *testing.T) {
	o := newOpenStack(t, "conformance")
	servers := o.servers(t, 3, "node")
	dir := t.TempDir()
	render(t, filepath.Join(dir, "host.yaml"), conformanceHost, map[string]any{"Proxy": o.proxy.address, "Port": portOf(o.proxy.address)})
	render(t, filepath.Join(dir, "cases.yaml"), conformanceCases, map[string]any{"Servers": servers, "Zone": o.rc.ServerZone, "Volume": o.volume(t)})
	write(t, filepath.Join(dir, "cloud.conf"), o.cloudConf("[Route]\nrouter-id = "+o.rc.Router.ID+"\n"))
	user := o.rc.Users["kubernetes"]
	for key, value := range map[string]string{
		"username": user.Username, "user_domain_name": user.Domain, "password": user.Password,
		"project_name": user.Project, "project_domain_name": user.Domain,
	} {
		write(t, filepath.Join(dir, "secrets", "kube-system", "openstack", key), value)
	}
	tools, err := filepath.Abs("../../../testdata/openstack")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "inspect"), strings.ReplaceAll(inspect, "$TOOLS", tools))
	args := []string{
		"conformance", "--module", filepath.Join(o.build, "openstack.wasm"), "--provider-config", filepath.Join(dir, "cloud.conf"),
		"--config", filepath.Join(dir, "host.yaml"), "--secrets", filepath.Join(dir, "secrets"), "--cases", filepath.Join(dir, "cases.yaml"),
		"--signer-module", "openstack=" + filepath.Join(o.build, "signer-keystone.wasm"),
		"--inspect", "bash " + filepath.Join(dir, "inspect"), "--inspect-ignore-ips", "--crash-at-writes",
	}
	cmd := exec.Command(filepath.Join(o.build, "ccmctl"), slices.Concat(args, strings.Fields(os.Getenv("OPENSTACK_CONFORMANCE")))...)
	var report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, os.Stderr // progress
	err = cmd.Run()
	t.Logf("%s", report.String())
	if err != nil {
		t.Errorf("%v; last requests:\n%s", err, o.proxy.tail())
	}
}

// inspect describes what the cloud keeps for the cluster, without IDs.
const inspect = `set -euo pipefail
$TOOLS/nb --bare --columns=protocol,vips list load_balancer | sed '/^$/d' | sort
$TOOLS/nb --bare --columns=ip_prefix,nexthop list logical_router_static_route | sort
$TOOLS/os <<'P'
import openstack
c = openstack.connect(cloud="kubernetes")
for l in c.load_balancer.load_balancers(): print("balancer", l.name, l.provisioning_status, sorted(l.tags))
for l in c.load_balancer.listeners(): print("listener", l.name, l.protocol, l.protocol_port, sorted(l.tags))
for p in c.load_balancer.pools(): print("pool", p.name, p.protocol, len(p.members))
for i in c.network.ips(): print("floating", i.description, i.port_id is not None)
for p in c.network.ports(): print("port", p.device_owner, p.name, [a["ip_address"] for a in p.allowed_address_pairs])
P
`

const conformanceHost = `
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: openstack
  source: {directory: /unused}
  grants: [{scheme: http, host: 127.0.0.1, port: {{.Port}}, credentials: [openstack]}]
  credentials:
  - name: openstack
    secret: {namespace: kube-system, name: openstack}
    publicKeys: [username, user_domain_name, project_name, project_domain_name]
    signer:
      source: {directory: /unused-too}
      config: "auth_url: http://{{.Proxy}}/p5000/v3"
      tokens: [{url: "http://{{.Proxy}}/p5000/v3/auth/tokens"}]
  requests: {perSecond: 100, burst: 100, concurrent: 16}
`

const conformanceCases = `
nodes:
{{- range $name, $id := .Servers}}
- name: {{$name}}
  providerID: openstack:///{{$id}}
{{- end}}
services:
- metadata: {name: web}
  spec:
    ports:
    - {name: http, port: 80, nodePort: 31080}
    - {name: dns, port: 53, protocol: UDP, nodePort: 31053}
- metadata:
    name: inside
    annotations: {service.beta.kubernetes.io/openstack-internal-load-balancer: "true"}
  spec: {ports: [{port: 443, nodePort: 31443}]}
routes:
- {node: node-0, cidr: 10.244.1.0/24}
- {node: node-1, cidr: 10.244.2.0/24}
volumes:
- persistentVolume:
    metadata: {name: data}
    spec: {csi: {driver: cinder.csi.openstack.org, volumeHandle: {{.Volume}}}}
  labels: {topology.kubernetes.io/zone: {{.Zone}}, topology.kubernetes.io/region: RegionOne}
badConfigs: ["[Global]\nregion = RegionOne\n", "[Global]\nauth-url = http://x\npassword = abc\n"]
`

func (o *openStack) volume(t *testing.T) (id string) {
	t.Helper()
	o.sdk(t, fmt.Sprintf(`
import openstack, json
c = openstack.connect(cloud="kubernetes")
print(json.dumps(c.block_storage.create_volume(size=1, name="data", availability_zone=%q).id))`, o.rc.ServerZone), &id)
	t.Cleanup(func() {
		o.sdk(t, fmt.Sprintf(`
import openstack
openstack.connect(cloud="admin").block_storage.delete_volume(%q, force=True)`, id))
	})
	return id
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func render(t *testing.T, path, text string, values any) {
	t.Helper()
	var b bytes.Buffer
	if err := template.Must(template.New(path).Parse(text)).Execute(&b, values); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.String())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
