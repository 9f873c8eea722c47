package validation_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// withOCI is a configuration with a provider and a signer from images.
func withOCI(provider, signer string) string {
	return "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n- name: p\n  source: {oci: {" + provider + "}}\n" +
		"  credentials:\n  - name: cloud\n    secret: {namespace: ns, name: cloud}\n    signer: {source: {oci: {" + signer + "}}}\n"
}

func TestMistakesInImagesHaveTheirPath(t *testing.T) {
	const good, source = "reference: registry.example.com/p:v1", "providers[0].source.oci."
	for text, want := range map[string]string{
		"reference: registry.example.com/p":            source + "reference: Invalid value: \"registry.example.com/p\": write HOST[:PORT]/PATH:TAG",
		"reference: 'oci://registry.example.com/p:v1'": source + "reference: Invalid value: \"oci://registry.example.com/p:v1\": it is an URL",
		"reference: p:v1":                              source + "reference",
		"interval: 1m":                                 source + "reference",
		good + ", interval: 9s":                        source + "interval",
		good + ", interval: 25h":                       source + "interval",
		good + ", interval: soon":                      source + "interval",
		good + ", pullPolicy: Never":                   source + "pullPolicy: Unsupported value: \"Never\": supported values: \"Always\", \"IfNotPresent\"",
		"reference: registry.example.com/p" + digest + ", pullPolicy: Always": source + "pullPolicy: Invalid value: \"Always\": a digest stands for one image for ever",
		good + ", caBundle: nonsense":                                         source + "caBundle",
		good + ", pullSecret: {name: pull}":                                   source + "pullSecret.namespace",
		good + ", pullSecret: {namespace: ns, name: Pull}":                    source + "pullSecret.name",
		good + ", insecure: true":                                             "unknown field \"" + source + "insecure\"",
		"reference: registry.example.com/s:v1":                                "providers[0].credentials[0].signer.source: Invalid value: \"...\": it is the provider's",
	} {
		_, err := validation.Decode([]byte(withOCI(text, "reference: registry.example.com/s:v1")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	text := strings.Replace(withOCI(good, good+"2"), "source: {oci:", "source: {directory: /x, oci:", 1)
	if _, err := validation.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "providers[0].source: Required value: give exactly one of configMap, directory and oci") {
		t.Errorf("two sources: %v", err)
	}
}
