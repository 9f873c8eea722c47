package deploy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// mistake is one that people make, in the cluster (make, which returns what mends
// it) or in what they are about to install (plan).
type mistake struct {
	// reason, severity and says (a regular expression) are ccmctl's words.
	reason, severity, says string
	// name tells those of one reason apart.
	name string
	make func(*testing.T, *checked) (mend func())
	plan func(*testing.T) string
	args []string
}

func mistakes() []mistake {
	return append(clusterMistakes(), append(releaseMistakes(), plannedMistakes()...)...)
}

// clusterMistakes are in the cluster around the manager.
func clusterMistakes() []mistake {
	return []mistake{
		{reason: "NotHandedOver", severity: "error", says: "node bare: .*--cloud-provider=external",
			make: created("{apiVersion: v1, kind: Node, metadata: {name: bare}}")},
		{reason: "NodeNotInitialized", severity: "error", says: "node stranger: a Node keeps its taint",
			make: created("{apiVersion: v1, kind: Node, metadata: {name: stranger}, spec: {taints: [{key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}]}}")},
		{reason: "ProviderIDInvalid", severity: "error", says: `node odd: .*"i-1234"`,
			make: created("{apiVersion: v1, kind: Node, metadata: {name: odd}, spec: {providerID: i-1234}}")},
		{reason: "TwoManagers", severity: "error", says: "pod default/other: .*another cloud-controller-manager", name: "pod",
			make: created(podOf("other", "{name: c, image: example.com/hcloud-cloud-controller-manager:v1}"))},
		{reason: "TwoManagers", severity: "error", says: "lease default/cloud-controller-manager: .*twin_1 leads", name: "lease",
			make: created("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: cloud-controller-manager, namespace: default}, spec: {holderIdentity: twin_1, leaseDurationSeconds: 600, renewTime: '" + micro(0) + "'}}")},
		{reason: "InTreeCloudProvider", severity: "error", says: "pod default/kcm: .*--cloud-provider=aws",
			make: created(podOf("kcm", "{name: kube-controller-manager, image: example.com/k, command: [kube-controller-manager, --cloud-provider=aws]}"))},
		{reason: "ClockAhead", severity: "error", says: "node fast: .*by (59m|1h0m)",
			make: created("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: fast, namespace: kube-node-lease}, spec: {renewTime: '" + micro(time.Hour) + "'}}")},
		{reason: "PortTaken", severity: "error", says: "pod default/squatter: .*port 10258",
			make: created(strings.Replace(podOf("squatter", "{name: c, image: example.com/c, ports: [{containerPort: 10258, hostPort: 10258}]}"), "spec: {", "spec: {hostNetwork: true, ", 1))},
		{reason: "WebhookBlocks", severity: "error", says: "validatingwebhookconfiguration guard: .*nothing ready is behind Service default/guard of webhook guard.example.com, .* each write of nodes/status",
			make: created("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard}, webhooks: [{name: guard.example.com, admissionReviewVersions: [v1], sideEffects: None, " +
				"clientConfig: {service: {namespace: default, name: guard}}, rules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [nodes/status]}]}]}")},
		{reason: "WebhookInTheWay", severity: "warning", says: "mutatingwebhookconfiguration labels: .*webhook labels.example.com sees each write of persistentvolumes with failurePolicy Fail",
			make: created("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: labels}, webhooks: [{name: labels.example.com, admissionReviewVersions: [v1], sideEffects: None, " +
				"clientConfig: {url: 'https://127.0.0.1:1/'}, rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: [persistentvolumes]}]}]}")},
		{reason: "PolicyInTheWay", severity: "warning", says: "validatingadmissionpolicy owners: .*each write of nodes, the manager's too",
			make: created("{apiVersion: v1, kind: List, items: [" +
				"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: owners}, spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [nodes]}]}, validations: [{expression: 'true'}]}}, " +
				"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: owners}, spec: {policyName: owners, validationActions: [Deny]}}]}")},
	}
}

func podOf(name, container string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: default}, spec: {automountServiceAccountToken: false, nodeName: m1, containers: [" + container + "]}}"
}

func micro(ahead time.Duration) string {
	return time.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// releaseMistakes are in what the chart has made.
func releaseMistakes() []mistake {
	return []mistake{
		{reason: "RightMissing", severity: "error", says: "serviceaccount kube-system/persistentvolume-label-controller: .*it may not list, watch, patch persistentvolumes",
			name: "controller", make: deleted("clusterrolebinding", "wasm-ccm:persistentvolume-label-controller")},
		{reason: "RightMissing", severity: "error", says: "serviceaccount kube-system/cloud-controller-manager: .*it may not get, update configmaps wasm-ccm-store-static in namespace kube-system",
			name: "provider", make: deleted("role", "wasm-ccm:provider:static")},
		{reason: "ServiceAccountMissing", severity: "error", says: "serviceaccount kube-system/route-controller: ", make: deleted("serviceaccount", "route-controller")},
		{reason: "ConfigMapMissing", severity: "error", says: "configmap kube-system/cloud-provider-static: .*provider static names it", make: deleted("configmap", "cloud-provider-static")},
		{reason: "ConfigurationMissing", severity: "error", says: "configmap kube-system/cloud-controller-manager: .* has no key config.yaml",
			make: patched("configmap", manager, `[{"op": "remove", "path": "/data"}]`)},
		{reason: "TolerationMissing", severity: "error", says: "daemonset cloud-controller-manager: .*node.cloudprovider.kubernetes.io/uninitialized",
			make: patched("daemonset", manager, `[{"op": "remove", "path": "/spec/template/spec/tolerations"}]`)},
		{reason: "NoPriorityClass", severity: "warning", says: "daemonset cloud-controller-manager: ",
			make: patched("daemonset", manager, `[{"op": "remove", "path": "/spec/template/spec/priorityClassName"}]`)},
		{reason: "ForeignLeader", severity: "error", says: "lease kube-system/cloud-controller-manager: .* is no Pod of this manager",
			make: func(t *testing.T, c *checked) func() {
				c.kubectl(t, "-n", namespace, "delete", "pod", "--force", "-l", "app.kubernetes.io/name="+manager)
				return func() { c.managerPod(t) }
			}},
		{reason: "HostUnreachable", severity: "error", says: `host 127.0.0.1:1 of provider static: .*manager [^ ]+ cannot connect to it: .*connection refused`,
			make: granting("{scheme: http, host: 127.0.0.1, port: 1}")},
		{reason: "HostNotResolved", severity: "error", says: `host cloud.invalid:443 of provider static: `,
			make: granting("{scheme: https, host: cloud.invalid}")},
		{reason: "HostAddressRefused", severity: "error", says: `host localhost:443 of provider static: `,
			make: granting("{scheme: https, host: localhost}")},
		{reason: "ManagerSilent", severity: "error", says: "namespace kube-system: no manager answers", args: []string{"--server=https://127.0.0.1:1"}},
	}
}

// plannedMistakes are in what is to be installed.
func plannedMistakes() []mistake {
	values := func(values ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			return string(render(t, append([]string{"chart/examples/static.yaml"}, values...)...))
		}
	}
	provider := func(more string) func(*testing.T) string {
		return func(*testing.T) string {
			return "{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: [{name: static, source: {configMap: {namespace: kube-system, name: cloud-provider-static}}, " + more + "}]}"
		}
	}
	return []mistake{
		{reason: "HostConfigurationInvalid", severity: "error", says: `\S+: .*"providers\[0\].grant"`, plan: provider("grant: []")},
		{reason: "NotUsable", severity: "error", says: "configmap kube-system/cloud-provider-static-config: .*provider static: source.configMap: .*there is no module", name: "module",
			plan: func(t *testing.T) string {
				return strings.Replace(provider("store: static")(t), "cloud-provider-static", "cloud-provider-static-config", 1)
			}},
		{reason: "NotUsable", severity: "error", says: `secret kube-system/cloud: .*credentials\[api\].secret: key "token" is missing`, name: "secret",
			plan: provider("grants: [{host: api.example.com, credentials: [api]}], credentials: [{name: api, secret: {namespace: kube-system, name: cloud}, bearer: {}}]"),
			make: created("{apiVersion: v1, kind: Secret, metadata: {name: cloud, namespace: kube-system}, stringData: {tokn: 0123456789abcdef}}")},
		{reason: "NotUsable", severity: "error", says: "configmap kube-system/cloud-provider-static: .*provenance.digests", name: "digest",
			plan: provider("provenance: {digests: ['sha256:" + strings.Repeat("0", 64) + "']}")},
		{reason: "ConfigMapMissing", severity: "error", says: "configmap kube-system/settings: .*configFrom.configMap", name: "configFrom",
			plan: provider("configFrom: {configMap: {namespace: kube-system, name: settings}}")},
		{reason: "KeyMissing", severity: "error", says: "configmap kube-system/extension-apiserver-authentication: .*needs the key config.yaml",
			plan: provider("configFrom: {configMap: {namespace: kube-system, name: extension-apiserver-authentication}}")},
		{reason: "CRDMissing", severity: "error", says: "crd cloudproviders.config.wasm-ccm.dev: ",
			plan: objectsOnly},
		{reason: "CRDOld", severity: "warning", says: `crd cloudproviders.config.wasm-ccm.dev: .* is older than this ccmctl.*spec.engine -> .*kubectl apply -f deploy/chart/files/cloudproviders.yaml`,
			// With an object of the chart, and without its definition.
			plan: func(t *testing.T) string {
				return objectsOnly(t) + "\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: kube-system}}"
			},
			make: func(t *testing.T, c *checked) func() {
				file := c.file(t, string(c.kubectl(t, "patch", "--local", "--type=json", "-o", "yaml", "-f", "chart/files/cloudproviders.yaml",
					"-p", `[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/engine"}]`)))
				c.kubectl(t, "create", "-f", file)
				return func() { c.kubectl(t, "delete", "-f", file) }
			}},
		{reason: "PriorityClassMissing", severity: "error", says: "priorityclass urgent: ", plan: values("priorityClassName=urgent")},
		{reason: "NoPodCIDR", severity: "error", says: "node m1: .*no pod CIDR", plan: values("routes.enabled=true", "routes.clusterCIDR=10.244.0.0/16")},
		{reason: "NoLeaderElection", severity: "error", says: "deployment cloud-controller-manager: ", plan: values("workload=Deployment", "replicas=2", "args={--leader-elect=false}")},
		{reason: "NoHostNetwork", severity: "warning", says: "deployment cloud-controller-manager: ", plan: values("workload=Deployment", "hostNetwork=false")},
	}
}

// objectsOnly is a plan whose providers are objects of the cluster.
func objectsOnly(*testing.T) string {
	return "{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: [], cloudProviders: {enabled: true}}"
}

// created makes an object; it is mended by deleting it.
func created(object string) func(*testing.T, *checked) func() {
	return func(t *testing.T, c *checked) func() {
		file := c.file(t, object)
		c.kubectl(t, "create", "-f", file)
		return func() { c.kubectl(t, "delete", "--ignore-not-found", "--force", "-f", file) }
	}
}

// deleted deletes an object; it is mended by making it again.
func deleted(kind, name string) func(*testing.T, *checked) func() {
	return func(t *testing.T, c *checked) func() {
		file := c.file(t, string(c.kubectl(t, "-n", namespace, "get", kind, name, "-o", "yaml")))
		c.kubectl(t, "-n", namespace, "delete", kind, name)
		return func() { c.kubectl(t, "replace", "--force", "-f", file) }
	}
}

// granting gives the provider one more grant, in the ConfigMap and in the manager's file,
// which a kubelet makes of it.
func granting(grant string) func(*testing.T, *checked) func() {
	return func(t *testing.T, c *checked) func() {
		before, err := os.ReadFile(c.config)
		if err != nil {
			t.Fatal(err)
		}
		granted := strings.Replace(string(before), "  name: static\n", "  name: static\n  grants: ["+grant+"]\n", 1)
		if granted == string(before) {
			t.Fatalf("there is no provider static in\n%s", before)
		}
		configure := func(text string) {
			c.kubectl(t, "-n", namespace, "patch", "configmap", manager, "-p", fmt.Sprintf(`{"data": {"config.yaml": %q}}`, text))
			if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		configure(granted)
		return func() { configure(string(before)) }
	}
}

// patched changes an object; it is mended by making it again.
func patched(kind, name, patch string) func(*testing.T, *checked) func() {
	return func(t *testing.T, c *checked) func() {
		file := c.file(t, string(c.kubectl(t, "-n", namespace, "get", kind, name, "-o", "yaml")))
		c.kubectl(t, "-n", namespace, "patch", kind, name, "--type=json", "-p", patch)
		return func() { c.kubectl(t, "replace", "--force", "-f", file) }
	}
}
