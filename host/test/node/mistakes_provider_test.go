//go:build node

package node_test

import (
	"strings"
	"testing"
)

// offered replaces the module of provider remote.
func offered(key string, content func(t *testing.T) []byte) func(*testing.T, *healthy) func() {
	return func(t *testing.T, h *healthy) func() {
		t.Helper()
		h.module(t, "remote", "replace", key+"="+written(t, "offered.wasm", string(content(t))))
		return func() { h.module(t, "remote", "replace", "provider.wasm="+built("faulty.wasm")) }
	}
}

func faulty(t *testing.T) []byte { t.Helper(); return readFile(t, built("faulty.wasm")) }

// ofModules are mistakes in what a provider is made of.
func ofModules() []mistake {
	const remote = `provider remote: `
	return []mistake{
		{name: "the module is deleted", says: `^ConfigMapMissing configmap kube-system/cloud-provider-remote: `, also: "SourceUnavailable|OfferRefused", make: func(t *testing.T, h *healthy) func() {
			h.kubectl(t, "-n", namespace, "delete", "configmap", "cloud-provider-remote")
			return func() { h.module(t, "remote", "create", "provider.wasm="+built("faulty.wasm")) }
		}},
		{name: "the module has another key", make: offered("provider", faulty), says: `^\w+ .*remote.*NAME\.wasm`, also: "SourceUnavailable|OfferRefused|NotUsable"},
		{name: "a text instead of a module", make: offered("provider.wasm", func(*testing.T) []byte { return []byte("<html>404 not found</html>") }), says: `^\w+ .*remote.*(magic|WebAssembly|wasm)`, also: "OfferRefused|NotUsable"},
		{name: "half a module", make: offered("provider.wasm", func(t *testing.T) []byte { b := faulty(t); return b[:len(b)/2] }), says: `^\w+ .*remote`, also: "OfferRefused|NotUsable"},
		{name: "a module that is no provider", make: offered("provider.wasm", func(*testing.T) []byte { return []byte("\x00asm\x01\x00\x00\x00") }), says: `^\w+ .*remote`, also: "OfferRefused|NotUsable"},
		{name: "the module of another provider", make: offered("provider.wasm", func(t *testing.T) []byte { return readFile(t, built("static.wasm")) }), says: `^OfferRefused ` + remote, also: "NotUsable"},
		{name: "a configuration that the provider refuses", make: valued("config: count=", "config: cloud_url="), says: `^OfferRefused ` + remote + `.*cloud_url`},
		{name: "an inventory that is no YAML", make: valued("machines: [", "machines: [["), says: `^OfferRefused provider static: `},
		{name: "a signature is demanded", make: valued("- name: remote\n", "- name: remote\n  provenance: {publicKeys: [\"-----BEGIN PUBLIC KEY-----\\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\\n-----END PUBLIC KEY-----\\n\"]}\n"), says: `^\w+ .*remote.*(SignatureMissing|signature)`, also: "OfferRefused|NotUsable|ServingModuleNotAdmitted"},
		{name: "another digest is pinned", make: valued("- name: remote\n", "- name: remote\n  provenance: {digests: ['sha256:"+strings.Repeat("0", 64)+"']}\n"), says: `^\w+ .*remote.*(DigestNotPinned|provenance.digests)`, also: "OfferRefused|NotUsable|ServingModuleNotAdmitted"},
		{name: "its rollouts are paused", says: `^Paused ` + remote, make: func(t *testing.T, h *healthy) func() {
			h.says(t, nil, "rollout", "pause", "remote")
			return func() { h.says(t, nil, "rollout", "pause", "remote", "--resume") }
		}},
		{name: "the configuration is edited by hand", says: `^(HostConfigurationRejected|HostConfigurationInvalid) .*provders`, also: "ConfigurationInvalid|HostConfigurationRejected|ObjectMissing", make: func(t *testing.T, h *healthy) func() {
			before, err := h.quietly(t, "-n", namespace, "get", "configmap", workload, "-o", "yaml")
			if err != nil {
				t.Fatal(err)
			}
			h.kubectl(t, "replace", "-f", written(t, "edited.yaml", strings.Replace(before, "providers:", "provders:", 1)))
			return func() { h.restore(t) }
		}},
		{name: "its Secret does not exist", make: valued("  grants:\n", "  credentials: [{name: cloud, secret: {namespace: kube-system, name: keys}, bearer: {}}]\n  grants:\n"), says: `^SecretMissing secret kube-system/keys: `, also: "NotUsable|OfferRefused|RightMissing|HostConfigurationRejected"},
		{name: "its Secret has another key", says: `^NotUsable secret kube-system/keys: .*"token"`, also: "OfferRefused|HostConfigurationRejected", make: func(t *testing.T, h *healthy) func() {
			h.kubectl(t, "-n", namespace, "create", "secret", "generic", "keys", "--from-literal=api-token=0123456789abcdef")
			mend := valued("  grants:\n", "  credentials: [{name: cloud, secret: {namespace: kube-system, name: keys}, bearer: {}}]\n  grants:\n")(t, h)
			return func() { mend(); h.kubectl(t, "-n", namespace, "delete", "secret", "keys") }
		}},
	}
}

// ofClouds are mistakes on the way to a cloud, and of the cloud.
func ofClouds() []mistake {
	answers := func(status int32) func(*testing.T, *healthy) func() {
		return func(t *testing.T, h *healthy) func() {
			t.Helper()
			h.cloud.answers.Store(status)
			t.Cleanup(func() { h.cloud.answers.Store(0) })
			h.kubectl(t, "create", "service", "loadbalancer", "shop", "--tcp=80:8080")
			return func() {
				h.cloud.answers.Store(0)
				h.kubectl(t, "delete", "service", "shop", "--timeout=5m") // upstream tries again after up to 5 minutes
			}
		}
	}
	grant := func(new string) func(*testing.T, *healthy) func() {
		return valued("  - {scheme: http, host: "+bridgeAddress, "  - "+new+"\n  - {scheme: http, host: "+bridgeAddress)
	}
	return []mistake{
		{name: "the cloud refuses the credentials", make: answers(401), says: `^CredentialsRefused service default/shop: .*401`},
		{name: "the cloud has an outage", make: answers(503), says: `^(CloudUnavailable|Breaker) (service default/shop|provider remote)`, also: "Breaker"},
		{name: "the cloud is another server", make: answers(302), says: `^CloudUnavailable service default/shop: .*302`},
		{name: "a grant of a name that does not exist", make: grant("{scheme: https, host: cloud.invalid}"), says: `^HostNotResolved host cloud.invalid:443 `},
		{name: "a grant of a port that is closed", make: grant("{scheme: http, host: " + bridgeAddress + ", port: 9}"), says: `^HostUnreachable host ` + bridgeAddress + `:9 .*refused`},
		{name: "a grant of the machine itself", make: grant("{scheme: https, host: localhost}"), says: `^HostAddressRefused host localhost:443 `},
		{name: "no grant", make: func(t *testing.T, h *healthy) func() {
			t.Helper()
			mend := valued("  - {scheme: http, host: "+bridgeAddress, "  - {scheme: http, host: 10.77.0.99")(t, h)
			return mend
		}, says: `^(NotGranted|OfferRefused|HostUnreachable) `, also: "HostUnreachable|OfferRefused|NotGranted|CloudUnavailable"},
	}
}
