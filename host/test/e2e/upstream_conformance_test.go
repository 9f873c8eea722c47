//go:build upstream

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUpstreamConforms runs the conformance kit on AWS' provider, as an author
// does, and compares its verdicts with the table in guests/upstream/aws/README.md.
// UPSTREAM_CONFORMANCE are further flags: "--only=REGEXP".
func TestUpstreamConforms(t *testing.T) {
	moto := newMoto(t, 3)
	u := &upstreamRig{rig: &rig{report: &report{build: buildDir(t)}}, moto: moto, proxy: startMotoProxy(t, moto.url)}
	dir := t.TempDir()
	settings, err := json.Marshal(map[string]any{
		"env": u.awsEnvironment("AKIAHOST", "host-signs-again"), "cloudConfig": u.cloudConfig(),
		"requests": []map[string]any{{"host": "127.0.0.2", "credential": "ec2"}, {"host": "127.0.0.3", "credential": "elasticloadbalancing"}},
		"loopback": []string{"http://" + u.proxy.ec2, "http://" + u.proxy.elb},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.yaml": string(settings), "host.yaml": u.conformanceHost(), "cases.yaml": conformanceOf(moto),
		"secrets/kube-system/aws/access_key_id": awsKeyID, "secrets/kube-system/aws/secret_access_key": awsSecret,
		"wrong/kube-system/aws/access_key_id": awsWrongID, "wrong/kube-system/aws/secret_access_key": awsSecret,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{
		"conformance", "--module", filepath.Join(u.build, "aws.wasm"), "--provider-config", filepath.Join(dir, "config.yaml"), "--config", filepath.Join(dir, "host.yaml"),
		"--secrets", filepath.Join(dir, "secrets"), "--cases", filepath.Join(dir, "cases.yaml"), "--crash-at-writes", "--max-positions", "12", "--output", "json",
		"--compilation-cache-dir", filepath.Join(u.build, "upstream-cache"), "--wrong-secrets", filepath.Join(dir, "wrong"),
		"--inspect", "../../../testdata/moto/state " + moto.url, "--inspect-ignore", identifiers.String(),
	}
	cmd := exec.Command(filepath.Join(u.build, "ccmctl"), slices.Concat(args, strings.Fields(os.Getenv("UPSTREAM_CONFORMANCE")))...)
	var report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, os.Stderr // progress
	err = cmd.Run()
	t.Logf("the kit: %v", err)
	checkVerdicts(t, report.Bytes(), "../../../guests/upstream/aws/README.md")
}

func (u *upstreamRig) conformanceHost() string {
	return strings.NewReplacer("$EC2", portOfAddress(u.proxy.ec2), "$ELB", portOfAddress(u.proxy.elb)).Replace(`
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: aws
  source: {directory: /unused}
  grants:
  - {scheme: http, host: 127.0.0.2, port: $EC2, credentials: [ec2]}
  - {scheme: http, host: 127.0.0.3, port: $ELB, credentials: [elasticloadbalancing]}
  credentials:
  - {name: ec2, secret: {namespace: kube-system, name: aws}, awsSigV4: {region: eu-central-1, service: ec2}}
  - {name: elasticloadbalancing, secret: {namespace: kube-system, name: aws}, awsSigV4: {region: eu-central-1, service: elasticloadbalancing}}
  kube: {nodes: true}
  requests: {perSecond: 500, burst: 500, concurrent: 32}
  limits: {instances: 2, memory: 128Mi, module: 128Mi, compile: {memory: 3Gi, cpu: 20m, wall: 20m, output: 512Mi}}
  ops: {timeout: 20s}
`)
}

func conformanceOf(moto *motoCloud) string {
	var b strings.Builder
	b.WriteString("nodes:\n")
	for i, name := range moto.privateDNS {
		fmt.Fprintf(&b, "- {name: %s, providerID: %q, podCIDRs: [%s]}\n", name, "aws:///"+awsZone+"/"+moto.instances[i], podNetwork(i))
	}
	fmt.Fprintf(&b, `unknownNode: {name: ip-10-0-63-250.eu-central-1.compute.internal, providerID: "aws:///%s/i-0123456789abcdef0", addresses: [{type: InternalIP, address: 10.0.63.250}]}
actions: {name: '(?:^|&)Action=(\w+)', reads: ^Describe}
services:
- metadata: {name: web}
  spec: {ports: [{name: http, port: 80, nodePort: 31080}]}
- metadata: {name: network, annotations: {service.beta.kubernetes.io/aws-load-balancer-type: nlb}}
  spec: {ports: [{name: http, port: 80, nodePort: 31081}]}
routes:
- {node: %s, cidr: %s}
`, awsZone, moto.privateDNS[0], podNetwork(0))
	return b.String()
}
