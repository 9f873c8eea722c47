package validation_test

import "testing"

const providerFields = "name: one, store: one, source: {directory: /one}, "

func TestKube(t *testing.T) {
	for kube, want := range map[string]string{
		"{nodes: true, services: ['*'], endpointSlices: [a, b]}":                                    "",
		"{configMaps: [{namespace: a, name: b}], secrets: [{namespace: a, name: b}]}":               "",
		"{annotations: [example.com/*, plain, kubernetes.io/description], labels: [example.com/a]}": "",
		"{}":                               "",
		"{services: ['*', a]}":             "providers[0].kube.services[0]: Invalid value",
		"{services: [a, a]}":               "providers[0].kube.services[1]: Duplicate value",
		"{services: [A]}":                  "providers[0].kube.services[0]: Invalid value",
		"{endpointSlices: ['']}":           "providers[0].kube.endpointSlices[0]: Invalid value",
		"{configMaps: [{name: b}]}":        "providers[0].kube.configMaps[0].namespace",
		"{secrets: [{namespace: a}]}":      "providers[0].kube.secrets[0].name",
		"{annotations: ['*']}":             "providers[0].kube.annotations[0]",
		"{annotations: [kubernetes.io/*]}": "keys of kubernetes.io control Kubernetes itself",
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

// A Secret that the host uses under any field is readable to no provider.
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
