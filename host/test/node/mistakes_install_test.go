//go:build node

package node_test

import (
	"strings"
	"testing"
)

// base are the values of the healthy cluster: a provider for Nodes, and one for Services
// that has a cloud.
func (h *healthy) base() string {
	return `providers:
- name: static
  routing: {nodes: {ask: true}}
  config: |
    ` + strings.ReplaceAll(strings.TrimSpace(inventory(1)), "\n", "\n    ") + `
- name: remote
  routing: {services: {default: true}}
  rollout: {observePeriod: 1s}
  config: count=http://` + h.cloud.address + `
  grants:
  - {scheme: http, host: ` + bridgeAddress + `, port: ` + h.cloud.port() + `, pathPrefix: /}
`
}

// install brings the cluster into the state in which nothing is wrong.
func (h *healthy) install(t *testing.T) {
	t.Helper()
	h.settled(t)
	h.module(t, "static", "create", "provider.wasm="+built("static.wasm"))
	h.module(t, "remote", "create", "provider.wasm="+built("faulty.wasm"))
	h.helm(t, "install", "--values", written(t, "values.yaml", h.base()))
	h.rolledOut(t)
	h.clean(t)
}

// restore brings it back: a field that kubectl has changed is helm's again.
func (h *healthy) restore(t *testing.T) {
	t.Helper()
	h.helm(t, "upgrade", "--force-conflicts", "--values", written(t, "values.yaml", h.base()))
	h.rolledOut(t)
}

// module makes or replaces the ConfigMap of a provider's module.
func (h *healthy) module(t *testing.T, provider, verb, file string) {
	t.Helper()
	out, err := h.quietly(t, "-n", namespace, "create", "configmap", "cloud-provider-"+provider, "--from-file="+file, "--dry-run=client", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	h.kubectl(t, verb, "-f", written(t, "provider.yaml", out))
}

// valued is an upgrade with a change of the values: old is replaced by new, or new added
// where old is "".
func valued(old, new string) func(*testing.T, *healthy) func() {
	return func(t *testing.T, h *healthy) func() {
		t.Helper()
		text := h.base()
		if old != "" && !strings.Contains(text, old) {
			t.Fatalf("the values have no %q", old)
		}
		if text = strings.Replace(text, old, new, 1); old == "" {
			text = h.base() + new + "\n"
		}
		h.helm(t, "upgrade", "--values", written(t, "values.yaml", text))
		return func() { h.restore(t) }
	}
}

// nothing is a mistake that is in the command itself.
func nothing(*testing.T, *healthy) func() { return nil }

// before are mistakes of who has not installed anything yet.
func before() []mistake {
	plan := func(name, text, says string) mistake {
		return mistake{name: name, says: says, asks: []string{"ccmctl", "check", "-f", "@" + name + ".yaml"}, make: func(t *testing.T, _ *healthy) func() {
			written(t, name+".yaml", "{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: [{name: static, source: {configMap: {namespace: kube-system, name: cloud-provider-static}}, "+text+"}]}")
			return nil
		}}
	}
	return []mistake{
		{name: "nothing is installed", make: nothing, says: `^NotInstalled namespace kube-system: `},
		{name: "a Node waits for it", make: nothing, asks: []string{"ccmctl", "check", "--all"}, says: `^ok +Nodes +cluster: 1 of 1 Nodes wait for`},
		{name: "status of what is not installed", make: nothing, asks: []string{"ccmctl", "status"}, says: `no manager is installed in namespace kube-system: `},
		{name: "another namespace", make: nothing, asks: []string{"ccmctl", "status", "--manager-namespace=ccm"}, says: `no manager is installed in namespace ccm: `},
		plan("mistyped", "grant: []", `error +HostConfigurationInvalid +\S*mistyped.yaml: .*"providers\[0\].grant"`),
		plan("no-module", "store: static", `error +ConfigMapMissing +configmap kube-system/cloud-provider-static: `),
		plan("no-secret", "grants: [{host: api.example.com, credentials: [api]}], credentials: [{name: api, secret: {namespace: kube-system, name: cloud}, bearer: {}}]", `error +SecretMissing +secret kube-system/cloud: `),
		plan("scheme-in-host", "grants: [{host: 'https://api.example.com'}]", `error +HostConfigurationInvalid .*grants\[0\].host`),
	}
}

// refused are values with which helm upgrade changes nothing.
func refused() []mistake {
	value := func(name, old, new, says string) mistake {
		return mistake{name: name, says: says, asks: []string{"helm", "upgrade", "ccm", repository("deploy", "chart"), "-n", namespace, "--values", "@refused.yaml"}, make: func(t *testing.T, h *healthy) func() {
			written(t, "refused.yaml", strings.Replace(h.base(), old, new, 1))
			return nil
		}}
	}
	return []mistake{
		value("a scheme in a host", "host: "+bridgeAddress, "host: http://"+bridgeAddress, `grants/0/host|grants\[0\]\.host|grants\.0\.host`),
		value("a mistyped field", "grants:", "grant:", `additional.*grant`),
		value("a port in quotes", "port: ", "port: http", `port`),
		value("a name in capitals", "- name: remote", "- name: Remote", `name`),
		value("two of one name", "- name: remote", "- name: static", `static`),
		value("a duration without a unit", "observePeriod: 1s", "observePeriod: 10", `observePeriod`),
		value("an engine that does not exist", "- name: remote", "- name: remote\n  engine: wasmer", `engine`),
		value("routes without a CIDR", "providers:", "routes: {enabled: true}\nproviders:", `clusterCIDR`),
		value("a version that nothing proves", "- name: remote\n", "- name: remote\n  provenance: {minimumVersion: 9.0.0}\n", `provenance.minimumVersion`),
		value("two ports of one number", "providers:", "ports: {secure: 10258, probes: 10258}\nproviders:", `ports`),
	}
}

// ofPods are mistakes with which no manager runs.
func ofPods() []mistake {
	const silent = "NoLeader|ManagerSilent|PodNotReady|NodeNotInitialized|ForeignLeader"
	return []mistake{
		{name: "an image that does not exist", make: valued("", "image: {repository: localhost/wasm-ccm/ccm}"), says: `^PodNotStarted pod kube-system/\S+: .*(ErrImagePull|ImagePullBackOff)`, also: silent},
		{name: "a flag that does not exist", make: valued("", "args: [--cloud=aws]"), says: `^(PodNotRunning|PodEnded) pod kube-system/\S+: .*exit code`, also: silent},
		{name: "too little memory", make: valued("", "resources: {limits: {memory: 12Mi}, requests: {memory: 12Mi}}"), says: `^(PodNotRunning|PodEnded) pod kube-system/\S+: .*OOMKilled`, also: silent},
		{name: "too many CPUs", make: valued("", "resources: {requests: {cpu: 64}}"), says: `^PodNotScheduled pod kube-system/\S+: .*Insufficient cpu`, also: silent},
		{name: "a node selector that nothing matches", make: valued("", "nodeSelectorTerms: [{matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}]"), says: `^NoNodeMatches daemonset `, also: silent},
		{name: "a Node without the label", says: `^NoNodeMatches daemonset `, also: silent, make: func(t *testing.T, h *healthy) func() {
			h.kubectl(t, "label", "node", "cp-1", "node-role.kubernetes.io/control-plane-")
			return func() {
				h.kubectl(t, "label", "node", "cp-1", "node-role.kubernetes.io/control-plane=")
				h.rolledOut(t)
			}
		}},
		{name: "a quota that is full", says: `^PodsMissing daemonset .*quota`, also: silent, make: func(t *testing.T, h *healthy) func() {
			h.kubectl(t, "-n", namespace, "create", "quota", "full", "--hard=pods=0")
			h.kubectl(t, "-n", namespace, "delete", "pods", "-l", selector)
			return func() {
				h.kubectl(t, "-n", namespace, "delete", "quota", "full")
				h.kubectl(t, "-n", namespace, "rollout", "restart", "daemonset/"+workload) // the controller backs off
				h.rolledOut(t)
			}
		}},
		{name: "a priority class that does not exist", make: valued("", "priorityClassName: urgent"), says: `^PriorityClassMissing priorityclass urgent: `, also: silent + "|PodsMissing"},
		{name: "a port of the kubelet", make: valued("", "ports: {secure: 10250}"), says: `^(PodNotRunning|PodEnded) pod kube-system/\S+: .*10250`, also: silent},
		{name: "a port of another Pod", says: `^PortTaken pod default/squatter: `, also: silent + "|PodNotScheduled|PodsMissing", make: func(t *testing.T, h *healthy) func() {
			end := applied("{apiVersion: v1, kind: Pod, metadata: {name: squatter, namespace: default}, spec: {automountServiceAccountToken: false, hostNetwork: true, tolerations: [{operator: Exists}], containers: [{name: c, image: '"+pauseImage+"', ports: [{containerPort: 10333}]}]}}")(t, h)
			h.kubectl(t, "wait", "pod/squatter", "--for=condition=PodScheduled")
			mend := valued("", "ports: {secure: 10333}")(t, h)
			return func() { end(); mend() }
		}},
		{name: "a volume that does not exist", make: valued("", "volumes: [{name: ca, configMap: {name: our-ca}}]\nvolumeMounts: [{name: ca, mountPath: /ca}]"), says: `^PodNotStarted pod kube-system/\S+: .*our-ca`, also: silent},
		{name: "an image in a volume that does not exist", make: valued("- name: remote\n", "- name: remote\n  volume: {image: {reference: localhost/none:v1, pullPolicy: IfNotPresent}}\n"), says: `^PodNotStarted pod kube-system/\S+: .*localhost/none:v1`, also: silent},
	}
}
