package v1alpha1_test

import (
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

const providerFields = "name: one, store: one, source: {directory: /one}, "

func TestKube(t *testing.T) {
	for kube, want := range map[string]string{
		"{nodes: true, services: ['*'], endpointSlices: [a, b]}":                               "",
		"{configMaps: [{namespace: a, name: b}], secrets: [{namespace: a, name: b}]}":          "",
		"{annotations: [example.com/*, plain, node.kubernetes.io/x], labels: [example.com/a]}": "",
		"{}":                               "",
		"{services: ['*', a]}":             "providers[0].kube.services[0]: Invalid value",
		"{services: [a, a]}":               "providers[0].kube.services[1]: Duplicate value",
		"{services: [A]}":                  "providers[0].kube.services[0]: Invalid value",
		"{endpointSlices: ['']}":           "providers[0].kube.endpointSlices[0]: Invalid value",
		"{configMaps: [{name: b}]}":        "providers[0].kube.configMaps[0].namespace",
		"{secrets: [{namespace: a}]}":      "providers[0].kube.secrets[0].name",
		"{annotations: ['*']}":             "providers[0].kube.annotations[0]",
		"{annotations: [kubernetes.io/*]}": "name each one",
		"{labels: [wasm-ccm.dev/x]}":       "keys of wasm-ccm.dev are the manager's own",
		"{labels: [a, a]}":                 "providers[0].kube.labels[1]: Duplicate value",
		"{pods: true}":                     "pods",
	} {
		if want == "" {
			checkError(t, providers(providerFields+"kube: "+kube))
		} else {
			checkError(t, providers(providerFields+"kube: "+kube), want)
		}
	}
	checkError(t, providers(providerFields+"capabilities: [store], kube: {nodes: true}"), "providers[0].kube", "add it, or remove this")
}

func TestKubeIsACapability(t *testing.T) {
	for kube, want := range map[string]bool{"{}": false, "{nodes: true}": true, "{labels: [a]}": true} {
		c, err := v1alpha1.Decode(providers(providerFields + "kube: " + kube))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(c.Providers[0].Capabilities, abi.CapabilityKube); got != want {
			t.Errorf("%s: capabilities %q", kube, c.Providers[0].Capabilities)
		}
	}
}

// Whatever names a Secret that the host uses, no provider reads that Secret.
func TestSecretsOfTheHostAreReadByNobody(t *testing.T) {
	const reads = "name: two, store: two, source: {directory: /two}, kube: {secrets: [{namespace: a, name: x}, {namespace: a, name: s}]}"
	for _, uses := range []string{
		"source: {directory: /one}, credentials: [{name: c, secret: {namespace: a, name: s}, bearer: {}}]",
		"source: {directory: /one}, grants: [{host: h, clientCertificate: {namespace: a, name: s}}]",
		"source: {oci: {reference: 'h/i:t', pullSecret: {namespace: a, name: s}}}",
		"source: {directory: /one}, credentials: [{name: c, secret: {namespace: a, name: t}, signer: {source: {oci: {reference: 'h/i:t', pullSecret: {namespace: a, name: s}}}}}]",
	} {
		checkError(t, providers("name: one, store: one, "+uses, reads), "providers[1].kube.secrets[1]: Invalid value", "the host uses it for providers[0]")
		checkError(t, providers("name: one, store: one, "+uses+", kube: {secrets: [{namespace: a, name: s}]}"), "providers[0].kube.secrets[0]")
	}
	checkError(t, providers("name: one, store: one, source: {directory: /one}, credentials: [{name: c, secret: {namespace: b, name: s}, bearer: {}}]", reads))
}
