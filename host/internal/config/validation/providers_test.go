package validation_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// providers is a file with one provider for each list of fields.
func providers(fields ...string) []byte {
	text := "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n"
	for _, f := range fields {
		text += "- {" + f + "}\n"
	}
	return []byte(text)
}

// checkError requires every part of want in the error, or no error without parts.
func checkError(t *testing.T, data []byte, want ...string) {
	t.Helper()
	_, err := validation.Decode(data)
	if len(want) == 0 && err != nil {
		t.Errorf("%v\nof\n%s", err, data)
	}
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in: %v\nof\n%s", text, err, data)
		}
	}
}

func TestSeveralProviders(t *testing.T) {
	const one, two = "name: one, store: one, source: {directory: /one}", "name: two, store: two, source: {directory: /two}"
	const module, also = "source: {configMap: {namespace: a, name: b}}", "source: {configMap: {name: b, namespace: a}}"
	for _, test := range []struct {
		fields []string
		want   []string
	}{
		{[]string{one, two}, nil},
		{nil, []string{"providers: Required value"}},
		{many(16), nil},
		{many(17), []string{"providers: Too many: 17"}},
		{[]string{one, one}, []string{`providers[1].name: Duplicate value: "one": it is that of providers[0].name`}},
		{[]string{"name: " + strings.Repeat("a", 40) + ", source: {directory: /one}"}, nil},
		{[]string{"name: " + strings.Repeat("a", 41) + ", source: {directory: /one}"}, []string{"providers[0].name: Too long", "40"}},

		{[]string{"name: one, store: a, " + module, "name: two, store: b, " + also}, nil},
		{[]string{"name: one, " + module}, nil},
		{[]string{"name: one, store: a, " + module, "name: two, " + also}, []string{"providers[1].store: Required value"}},
		{[]string{"name: one, " + module, "name: two, store: a, source: {directory: /two}"}, []string{"providers[0].store: Required value", "state of another"}},
		{[]string{one, "name: two, source: {directory: /two}"}, []string{"providers[1].store: Required value"}},
		{[]string{"name: one, store: a, " + module, "name: two, store: a, " + also}, []string{`providers[1].store: Duplicate value: "a": it is that of providers[0].store`}},
		{[]string{"name: one, store: A_b, " + module}, []string{"providers[0].store: Invalid value"}},

		{[]string{one + ", routing: {nodes: {schemes: [a, b]}}", two + ", routing: {nodes: {schemes: [c, b]}}"},
			[]string{`providers[1].routing.nodes.schemes[1]: Duplicate value: "b": it is that of providers[0].routing.nodes.schemes[1]`}},
		{[]string{one, two + ", routing: {nodes: {schemes: [one]}}"}, []string{`providers[1].routing.nodes.schemes[0]: Duplicate value: "one"`}},
		{[]string{one + ", routing: {nodes: {schemes: [first]}}", two + ", routing: {nodes: {schemes: [one]}}"}, nil},
		{[]string{one, two + ", routing: {volumes: {schemes: [one]}}"}, []string{"providers[1].routing.volumes.schemes[0]: Duplicate value"}},
		{[]string{one + ", routing: {volumes: {drivers: [d.csi]}}", two + ", routing: {volumes: {drivers: [d.csi]}}"}, []string{"providers[1].routing.volumes.drivers[0]: Duplicate value"}},
		{[]string{one + ", routing: {services: {default: true}}", two}, nil},
		{[]string{one + ", routing: {services: {default: true}}", two + ", routing: {services: {default: true}}"},
			[]string{"providers[1].routing.services.default: Duplicate value", "it is that of providers[0].routing.services.default"}},

		{[]string{one + ", routing: {services: {classes: [internal-vip, example.com/Internal_vip.1]}}"}, nil},
		{[]string{one + ", routing: {services: {classes: [" + classes(16) + "]}}"}, nil},
		{[]string{one + ", routing: {services: {classes: [" + classes(17) + "]}}"}, []string{"providers[0].routing.services.classes: Too many: 17: must have at most 16 items"}},
		{[]string{one + ", routing: {services: {classes: [a, b]}}", two + ", routing: {services: {classes: [c, b]}}"},
			[]string{`providers[1].routing.services.classes[1]: Duplicate value: "b": it is that of providers[0].routing.services.classes[1]`}},
		{[]string{one + ", routing: {services: {classes: [a, a]}}"}, []string{`providers[0].routing.services.classes[1]: Duplicate value: "a": it is that of providers[0].routing.services.classes[0]`}},
		{[]string{one + ", routing: {services: {classes: ['']}}"}, []string{"providers[0].routing.services.classes[0]: Invalid value", "must be non-empty"}},
		{[]string{one + ", routing: {services: {classes: [example.com/]}}"}, []string{"providers[0].routing.services.classes[0]: Invalid value"}},
		{[]string{one + ", routing: {services: {classes: [a/b/c]}}"}, []string{"providers[0].routing.services.classes[0]: Invalid value", "must consist of alphanumeric characters"}},
		{[]string{one + ", routing: {services: {classes: [Example.com/vip]}}"}, []string{"providers[0].routing.services.classes[0]: Invalid value"}},
		{[]string{one + ", routing: {services: {classes: [" + strings.Repeat("a", 64) + "]}}"}, []string{"providers[0].routing.services.classes[0]: Invalid value", "63"}},

		{[]string{one + ", routing: {nodes: {schemes: [a+b.c-1]}}"}, nil},
		{[]string{one + ", routing: {nodes: {schemes: ['aws://']}}"}, []string{"providers[0].routing.nodes.schemes[0]: Invalid value", "before ://"}},
		{[]string{one + ", routing: {nodes: {schemes: [Aws]}}"}, []string{"schemes[0]: Invalid value"}},
		{[]string{one + ", routing: {nodes: {schemes: [1aws]}}"}, []string{"schemes[0]: Invalid value"}},
		{[]string{one + ", routing: {nodes: {schemes: ['']}}"}, []string{"schemes[0]: Invalid value"}},
		{[]string{one + ", routing: {volumes: {schemes: [a b]}}"}, []string{"providers[0].routing.volumes.schemes[0]: Invalid value"}},
		{[]string{one + ", routing: {volumes: {drivers: [a/b]}}"}, []string{"providers[0].routing.volumes.drivers[0]: Invalid value"}},
		{[]string{one + ", routing: {volumes: {drivers: [" + strings.Repeat("a", 64) + "]}}"}, []string{"providers[0].routing.volumes.drivers[0]: Too long"}},
		{[]string{one + ", routing: {nodes: {schemes: [" + strings.Repeat("a, ", 65) + "]}}"}, []string{"providers[0].routing.nodes.schemes: Too many: 65"}},
	} {
		checkError(t, providers(test.fields...), test.want...)
	}
}

// classes is a YAML list of n classes.
func classes(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("class-%d", i))
	}
	return strings.Join(names, ", ")
}

func many(n int) (fields []string) {
	for i := range n {
		fields = append(fields, fmt.Sprintf("name: p%d, store: p%d, source: {directory: /p%d}", i, i, i))
	}
	return fields
}

func TestMistakesOfRollouts(t *testing.T) {
	const p = "name: one, source: {directory: /one}, "
	for fields, want := range map[string]string{
		"rollout: {probe: required}":                                         `providers[0].rollout.probe: Unsupported value: "required": supported values: "Required", "Allowed", "Off"`,
		"rollout: {shadow: {}}":                                              "providers[0].rollout.shadow: must be a text",
		"rollout: {shadow: On}":                                              "providers[0].rollout.shadow",
		"rollout: {observe: Never}":                                          "providers[0].rollout.observe",
		"rollout: {shadowSamples: 1001}":                                     "providers[0].rollout.shadowSamples",
		"rollout: {shadowSamples: -1}":                                       "providers[0].rollout.shadowSamples",
		"rollout: {observePeriod: 10ms}":                                     "providers[0].rollout.observePeriod",
		"rollout: {observePeriod: 25h}":                                      "providers[0].rollout.observePeriod",
		"rollout: {errorBudget: {failures: -1}}":                             "providers[0].rollout.errorBudget.failures",
		"rollout: {errorBudget: {percent: 101}}":                             "providers[0].rollout.errorBudget.percent",
		"rollout: {errorBudget: {percents: 1}}":                              `unknown field "providers[0].rollout.errorBudget.percents"`,
		"provenance: {keys: []}":                                             `unknown field "providers[0].provenance.keys"`,
		"routing: {nodes: {scheme: [a]}}":                                    `unknown field "providers[0].routing.nodes.scheme"`,
		"provenance: {digests: ['sha256:ab']}":                               "providers[0].provenance.digests[0]",
		"provenance: {digests: [" + hex("A") + "]}":                          "providers[0].provenance.digests[0]",
		"provenance: {digests: [" + hex("00") + "]}":                         "providers[0].provenance.digests[0]",
		"provenance: {digests: [" + strings.Repeat(hex("0")+", ", 65) + "]}": "providers[0].provenance.digests: Too many: 65",
		"provenance: {publicKeys: [" + strings.Repeat("a, ", 65) + "]}":      "providers[0].provenance.publicKeys: Too many: 65",
	} {
		checkError(t, providers(p+fields), want)
	}
	checkError(t, providers(p+"provenance: {digests: ["+hex("0")+"]}"))
	checkError(t, providers(p+"rollout: {probe: 'Off', shadow: off, observe: null}"))
	checkError(t, providers(p+"rollout: {shadowSamples: 1000, observePeriod: 24h, errorBudget: {failures: 0, percent: 100}}"))
}

func hex(digit string) string { return "'sha256:" + strings.Repeat(digit, 64) + "'" }

func TestPublicKeys(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := publicKey(t, &strong.PublicKey)
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(strong)}))
	for name, test := range map[string]struct{ key, want string }{
		"RSA 2048":        {good, ""},
		"RSA 1024":        {publicKey(t, &weak.PublicKey), "is an RSA key of 1024 bits: use one of 2048 to 8192"},
		"exponent of 1":   {publicKey(t, &rsa.PublicKey{N: strong.N, E: 1}), "exponent below 3"},
		"P-224":           {publicKey(t, &old.PublicKey), "P-224"},
		"too long":        {good + strings.Repeat("\n", 16<<10), "is longer than 16384 bytes"},
		"X25519":          {publicKey(t, exchange.PublicKey()), "use ECDSA, RSA or Ed25519"},
		"two in one":      {good + good, "something follows the key"},
		"text":            {"nonsense", "it is not PEM"},
		"empty":           {"", "it is not PEM"},
		"broken":          {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})), "it is not a public key"},
		"the private one": {private, "another type than \"PUBLIC KEY\": write the public key"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := validation.Decode([]byte(least))
			if err != nil {
				t.Fatal(err)
			}
			c.Providers[0].Provenance.PublicKeys = []string{good, test.key}
			err = validation.Validate(c).ToAggregate()
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "providers[0].provenance.publicKeys[1]") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "MII") {
				t.Errorf("the error repeats the key: %v", err)
			}
		})
	}
}

// Demands that rest on a signature are valid only with keys.
func TestDemandsOfProvenance(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf("publicKeys: [%q]", publicKey(t, &key.PublicKey))
	for demands, want := range map[string]string{
		keys + ", repository: registry.example.com/p, minimumVersion: 1.4.0": "",
		"repository: registry.example.com/p":                                 "providers[0].provenance.repository: Invalid value: \"registry.example.com/p\": only a signature makes it true: add publicKeys",
		"minimumVersion: 1.4.0":                                              "providers[0].provenance.minimumVersion",
		keys + ", repository: 'registry.example.com/p:v1'":                   "must be HOST/PATH",
		keys + ", minimumVersion: latest":                                    "must be a semantic version",
	} {
		data := providers(providerFields + "provenance: {" + demands + "}")
		if want == "" {
			checkError(t, data)
		} else {
			checkError(t, data, want)
		}
	}
}

func publicKey(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
