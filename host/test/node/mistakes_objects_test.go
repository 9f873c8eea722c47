//go:build node

package node_test

import (
	"testing"
)

// applied makes objects of the default namespace; they are mended by deletion.
func applied(object string) func(*testing.T, *healthy) func() {
	return func(t *testing.T, h *healthy) func() {
		t.Helper()
		file := written(t, "applied.yaml", object)
		h.kubectl(t, "apply", "-f", file)
		return func() {
			h.kubectl(t, "delete", "--ignore-not-found", "--force", "-f", written(t, "applied.yaml", object))
		}
	}
}

// removed deletes an object; helm makes it again.
func removed(kind, name string) func(*testing.T, *healthy) func() {
	return func(t *testing.T, h *healthy) func() {
		t.Helper()
		h.kubectl(t, "-n", namespace, "delete", kind, name)
		return func() { h.restore(t) }
	}
}

// ofNodes are mistakes of who adds a machine.
func ofNodes() []mistake {
	joins := func(arguments ...string) func(*testing.T, *healthy) func() {
		return func(t *testing.T, h *healthy) func() {
			t.Helper()
			n := h.second(t, arguments...)
			return func() {
				n.kubelet.kill(t)
				h.kubectl(t, "delete", "--ignore-not-found", "node", n.name)
			}
		}
	}
	const external = "--cloud-provider=external"
	return []mistake{
		{name: "a machine that is not in the inventory", make: joins(external), says: `^(MachineUnknown|NodeNotInitialized) node cp-2: .*(knows no|not found)`, also: "DeletionHeld|NodeNotInitialized|MachineUnknown"},
		{name: "a kubelet without a cloud", make: joins(), says: `^NotHandedOver node cp-2: .*--cloud-provider=external`, also: "MachineUnknown"},
		{name: "another provider ID", make: joins(external, "--provider-id=i-0123456789"), says: `^ProviderIDInvalid node cp-2: `, also: "NodeNotInitialized|NoProvider"},
		{name: "an address that the provider does not know", says: `^\w+ node cp-2: .*10\.77\.0\.77`, also: "NodeNotInitialized|MachineUnknown", make: func(t *testing.T, h *healthy) func() {
			one := valued("address: 10.77.0.11}]}", "address: 10.77.0.11}]}, {name: cp-2, zone: a, addresses: [{type: InternalIP, address: 10.77.0.77}]}")(t, h)
			two := joins(external, "--node-ip=10.77.0.12")(t, h)
			return func() { two(); one() }
		}},
	}
}

// second is a machine that is there once, with a kubelet of these arguments.
func (h *healthy) second(t *testing.T, arguments ...string) *node {
	t.Helper()
	if len(h.nodes) == 1 {
		return h.start(t, 2, arguments...)
	}
	n := h.nodes[1]
	n.arguments = append(n.arguments[:4:4], arguments...)
	n.startKubelet(t)
	h.registered(t, n)
	return n
}

// ofServices are mistakes of who wants a load balancer.
func ofServices() []mistake {
	service := func(spec string) func(*testing.T, *healthy) func() {
		return applied("{apiVersion: v1, kind: Service, metadata: {name: window, namespace: default}, spec: {ports: [{port: 80}], " + spec + "}}")
	}
	why := []string{"ccmctl", "why", "service", "window"}
	return []mistake{
		{name: "a Service of another class", make: service("type: LoadBalancer, loadBalancerClass: example.com/other"), asks: why, says: `OtherController|example\.com/other`},
		{name: "a Service without a load balancer", make: service("type: ClusterIP"), asks: why, says: `NotALoadBalancer|type ClusterIP`},
		{name: "a Service that does not exist", make: nothing, asks: []string{"ccmctl", "why", "service", "shoop"}, says: `not found in namespace default`},
		{name: "a Node that does not exist", make: nothing, asks: []string{"ccmctl", "why", "node", "cp-9"}, says: `node "cp-9" not found`},
		{name: "a provider that does not exist", make: nothing, asks: []string{"ccmctl", "why", "provider", "statc"}, says: `this manager has \[static remote\]`},
	}
}

// ofObjects are mistakes around the manager.
func ofObjects() []mistake {
	return []mistake{
		{name: "another manager", make: applied("{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: default}, spec: {automountServiceAccountToken: false, tolerations: [{operator: Exists}], containers: [{name: aws-cloud-controller-manager, image: '" + pauseImage + "'}]}}"), says: `^TwoManagers pod default/other: `},
		{name: "a webhook without a server", says: `^WebhookBlocks validatingwebhookconfiguration guard: `, make: applied("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard}, webhooks: [{name: guard.example.com, admissionReviewVersions: [v1], sideEffects: None, " +
			"clientConfig: {service: {namespace: default, name: guard}}, rules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [nodes/status]}]}]}")},
		{name: "a right is missing", make: removed("clusterrolebinding", "wasm-ccm:persistentvolume-label-controller"), says: `^RightMissing serviceaccount kube-system/persistentvolume-label-controller: `},
		{name: "an account is missing", make: removed("serviceaccount", "service-controller"), says: `^ServiceAccountMissing serviceaccount kube-system/service-controller: `, also: "RightMissing|Forbidden"},
		{name: "the manager's own role is missing", make: removed("role", "wasm-ccm:provider:remote"), says: `^RightMissing serviceaccount kube-system/cloud-controller-manager: `, also: "NotDurable|SourceUnavailable|OfferRefused"},
		{name: "CloudProviders without their kind", says: `^CRDMissing crd cloudproviders`, also: "NoLeader|ManagerSilent|PodNotReady|PodNotRunning", make: func(t *testing.T, h *healthy) func() {
			mend := valued("", "cloudProviders: {enabled: true, rights: [{name: third}]}")(t, h)
			h.kubectl(t, "delete", "crd", "cloudproviders.config.wasm-ccm.dev", "--ignore-not-found")
			return mend
		}},
		{name: "a registry that is gone", says: `^\w+ .*provider second.*(10\.77\.0\.1:1|registry)`, also: "NothingServes|OfferRefused|SourceUnavailable", make: func(t *testing.T, h *healthy) func() {
			mend := valued("- name: remote\n", "- name: second\n  source: {oci: {reference: \""+bridgeAddress+":1/providers/second:v1\", interval: 10s}}\n- name: remote\n")(t, h)
			return mend
		}},
		{name: "status of another namespace", make: nothing, asks: []string{"ccmctl", "status", "--manager-namespace=default"}, says: `default`},
		{name: "another cluster", make: nothing, asks: []string{"ccmctl", "status", "--kubeconfig=nothere"}, says: `nothere`},
		{name: "a person without rights", asks: []string{"ccmctl", "status", "--kubeconfig=@pki/nobody.kubeconfig"}, says: `cannot list resource "pods"`, make: func(t *testing.T, h *healthy) func() {
			h.authority.kubeconfig(t, "nobody", "nobody")
			return nil
		}},
	}
}
