package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/test/hostconfig"
)

// What nobody can mean is refused before anything changes, and the message says
// where it is.
func TestValuesRefused(t *testing.T) {
	depend(t)
	for name, test := range map[string]struct{ values, want string }{
		"a field that does not exist":       {"providers: [{name: a, grants: [{host: h, path: /}]}]", "'path' not allowed"},
		"a value that does not exist":       {"replica: 3", "'replica' not allowed"},
		"no provider":                       {"providers: []", "providers: give one, or set cloudProviders.enabled"},
		"17 providers":                      {"providers: [" + strings.Repeat("{name: a},", 17) + "]", "maxItems"},
		"a provider without a name":         {"providers: [{}]", "missing property 'name'"},
		"a name that no object can have":    {"providers: [{name: My Cloud}]", "/providers/0/name"},
		"a name that is too long":           {"providers: [{name: " + strings.Repeat("a", 41) + "}]", "/providers/0/name"},
		"rights of two names":               {"cloudProviders: {enabled: true, rights: [{name: \"a, b\"}]}", "/cloudProviders/rights/0/name"},
		"rights on two stores":              {"cloudProviders: {enabled: true, rights: [{name: a, store: \"a, cloud-provider-b\"}]}", "/cloudProviders/rights/0/store"},
		"a provider twice":                  {"providers: [{name: a}, {name: a}]", `providers[1].name: there are two providers "a"`},
		"two places of the module":          {"providers: [{name: a, volume: {emptyDir: {}}, source: {directory: /m}}]", "providers[0]: give either source or volume"},
		"two configurations":                {"providers: [{name: a, config: x, configFrom: {configMap: {namespace: ns, name: c}}}]", "providers[0]: give either config or configFrom"},
		"a duration without a unit":         {"providers: [{name: a, requests: {timeout: 30}}]", "/providers/0/requests/timeout"},
		"a phase that does not exist":       {"providers: [{name: a, rollout: {probe: Never}}]", "/providers/0/rollout/probe"},
		"another workload":                  {"workload: StatefulSet", "/workload"},
		"a digest that is none":             {"image: {digest: latest}", "/image/digest"},
		"routes without their network":      {"routes: {enabled: true}", "routes.clusterCIDR"},
		"two ports of one number":           {"ports: {probes: 10258}", "ports.probes: port 10258 is ports.secure already"},
		"an engine that does not exist":     {"providers: [{name: a, engine: wasmer}]", "/providers/0/engine"},
		"a version that nothing proves":     {"providers: [{name: a, provenance: {minimumVersion: 1.0.0}}]", "providers[0].provenance.minimumVersion: only a signature makes it true"},
		"a policy that would hold nothing":  {"networkPolicy: {enabled: true}", "set hostNetwork to false"},
		"a Secret without its namespace":    {"providers: [{name: a, credentials: [{name: c, secret: {name: s}}]}]", "missing property 'namespace'"},
		"a credential in a grant's place":   {"providers: [{name: a, credentials: [{name: c, secret: {namespace: ns, name: s}, token: t}]}]", "'token' not allowed"},
		"a store that would be of another":  {"providers: [{name: a}, {name: b, store: a}]", `providers[1].store: the store "a" belongs to another provider`},
		"a provider that is also a store":   {"providers: [{name: a, store: b}, {name: b}]", `the store "b" belongs to another provider`},
		"a name that makes another's":       {"providers: [{name: a, config: x}, {name: a-config}]", "cloud-provider-a-config"},
		"replicas of nothing":               {"workload: Deployment\nreplicas: 0", "/replicas"},
		"a namespace that the manager owns": {"modulesNamespace: kube-system", "modulesNamespace"},
		"two default providers":             {"providers: [{name: a, routing: {services: {default: true}}}, {name: b, routing: {services: {default: true}}}]", `providers[1].routing.services.default: the provider "a" is the default already; only one can be`},
		"a class of two providers":          {"providers: [{name: a, routing: {services: {classes: [x/y]}}}, {name: b, routing: {services: {classes: [z, x/y]}}}]", `providers[1].routing.services.classes: the class "x/y" belongs to the provider "a"; give it once`},
		"a class twice":                     {"providers: [{name: a, routing: {services: {classes: [x, x]}}}]", `providers[0].routing.services.classes: the class "x" belongs to the provider "a"`},
		"two kinds of source":               {"providers: [{name: a, source: {directory: /m, configMap: {namespace: ns, name: c}}}]", "providers[0].source: give exactly one of configMap, directory and oci; it has configMap, directory"},
		"two kinds of a signer's source":    {"providers: [{name: a, credentials: [{name: c, secret: {namespace: ns, name: s}, signer: {source: {directory: /m, oci: {reference: \"r.example.com/p:v1\"}}}}]}]", "providers[0].credentials[0].signer.source: give exactly one of configMap, directory and oci; it has directory, oci"},
		"a relative directory":              {"providers: [{name: a, source: {directory: m}}]", `providers[0].source.directory: "m" is no absolute path`},
		"an image without a tag":            {"providers: [{name: a, source: {oci: {reference: registry.example.com:5000/p}}}]", `providers[0].source.oci.reference: "registry.example.com:5000/p" is not HOST[:PORT]/PATH:TAG or HOST[:PORT]/PATH@sha256:HEX`},
		"an image without a registry":       {"providers: [{name: a, source: {oci: {reference: \"p/q:v1\"}}}]", `providers[0].source.oci.reference: "p/q:v1" is not HOST`},
		"machine code without its room":     {"providers: [{name: a, limits: {compile: {output: 512Mi}}}]", "providers[0].limits.compile.output: more machine code needs more than cache.sizeLimit, 512Mi"},
		"two kinds of configuration":        {"providers: [{name: a, configFrom: {configMap: {namespace: ns, name: c}, secret: {namespace: ns, name: s}}}]", "providers[0].configFrom: give either configMap or secret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryRender(t, valuesFile(t, test.values))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.values, err, test.want)
			}
		})
	}
}

// The chart and the manager agree about the references of images: what one of
// them takes, the other does not refuse.
func TestReferencesAsTheManagerReadsThem(t *testing.T) {
	depend(t)
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for reference, want := range map[string]bool{
		"registry.example.com/p:v1":           true,
		"registry.example.com:5000/p/q:1.0_a": true,
		"localhost/p:v1":                      true,
		"localhost:5000/p:v1":                 true,
		"127.0.0.1:5000/p" + digest:           true,
		"[::1]:5000/p:v1":                     true,
		"registry.example.com/p:v1" + digest:  true,
		"registry.example.com/p":              false,
		"registry.example.com:5000/p":         false,
		"registry.example.com/p:":             false,
		"registry.example.com/p@sha256:12":    false,
		"registry.example.com/p:v1 ":          false,
		"https://registry.example.com/p:v1":   false,
		"p:v1":                                false,
		"p/q:v1":                              false,
	} {
		_, byChart := tryRender(t, valuesFile(t, "providers: [{name: a, source: {oci: {reference: \""+reference+"\"}}}]"))
		_, byManager := hostconfig.Decode([]byte("{apiVersion: " + v1alpha1.APIVersion + ", kind: " + v1alpha1.Kind +
			", providers: [{name: a, source: {oci: {reference: \"" + reference + "\"}}}]}"))
		if (byChart == nil) != want || (byManager == nil) != want {
			t.Errorf("%s: want %v, the chart says %v, the manager %v", reference, want, byChart, byManager)
		}
	}
}

// A HostConfiguration is a file with values. One with every field comes out of
// the chart as it went in: nothing is lost, and no number changes.
func TestValuesAreTheHostConfiguration(t *testing.T) {
	depend(t)
	const file = "../host/config/v1alpha1/testdata/full.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hostconfig.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := hostconfig.Decode(hostConfiguration(t, render(t, file, roomForLargeModules)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Providers {
		if want.Providers[i].Store == "" {
			want.Providers[i].Store = want.Providers[i].Name // which a role can name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by the chart (-want +got):\n%s", diff)
	}
}

// Numbers of any size, a bare Off, and the text of a configuration stay what
// they are.
func TestValuesStayTheirSelves(t *testing.T) {
	depend(t)
	const configuration = "  a: 1\n\n# end\nb: |\n  x\n"
	rendered := render(t, valuesFile(t, "providers: [{name: a, limits: {callsPerInstance: 1000000, memory: 67108864}, rollout: {shadow: Off}, config: "+
		`"  a: 1\n\n# end\nb: |\n  x\n"}]`))
	got, err := hostconfig.Decode(hostConfiguration(t, rendered))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Providers[0]
	if p.Limits.CallsPerInstance != 1_000_000 || p.Limits.Memory.Value() != 64<<20 || p.Rollout.Shadow != v1alpha1.PhaseOff {
		t.Errorf("limits %+v, shadow %s", p.Limits, p.Rollout.Shadow)
	}
	for _, object := range objects(t, rendered) {
		if object.GetName() == "cloud-provider-a-config" {
			data, _ := object.Object["data"].(map[string]any)
			if diff := cmp.Diff(configuration, data["config.yaml"]); diff != "" {
				t.Errorf("the configuration (-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("no configuration")
}

// roomForLargeModules is the value that the chart wants beside a raised
// limits.compile.output, which every full configuration has.
const roomForLargeModules = "cache.sizeLimit=4Gi"

func valuesFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Whoever labels Services has to read them: with several providers, or one with
// classes, and in no other case.
func TestTheRightToLabelServices(t *testing.T) {
	depend(t)
	for name, test := range map[string]struct {
		values string
		want   bool
	}{
		"one provider":              {"providers: [{name: a}]", false},
		"one with a default":        {"providers: [{name: a, routing: {services: {default: true}}}]", true},
		"one with schemes":          {"providers: [{name: a, routing: {nodes: {schemes: [b]}}}]", true},
		"one with classes":          {"providers: [{name: a, routing: {services: {classes: [internal-vip]}}}]", true},
		"several without a routing": {"providers: [{name: a}, {name: b}]", true},
	} {
		if got := strings.Contains(string(render(t, valuesFile(t, test.values))), "name: wasm-ccm:service-owner"); got != test.want {
			t.Errorf("%s: granted %v, want %v", name, got, test.want)
		}
	}
}

// An inventory that people copy gives no Service the first or the last address
// of a network: it looks wrong in a status, and some routers refuse it.
func TestExamplesGiveNoNetworkAddress(t *testing.T) {
	depend(t)
	plain, err := os.ReadFile("config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inventories := []string{string(plain)}
	for _, object := range objects(t, render(t, "chart/examples/static.yaml")) {
		if object.GetName() == "cloud-provider-static-config" {
			data, _, _ := unstructured.NestedString(object.Object, "data", "config.yaml")
			inventories = append(inventories, data)
		}
	}
	if len(inventories) != 2 {
		t.Fatalf("%d inventories, want 2", len(inventories))
	}
	for _, text := range inventories {
		var inventory struct {
			Pools []struct{ SkipNetworkAndBroadcast bool }
		}
		if err := yaml.Unmarshal([]byte(text), &inventory); err != nil || len(inventory.Pools) != 1 || !inventory.Pools[0].SkipNetworkAndBroadcast {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

// Texts that YAML takes for numbers or for pairs stay texts.
func TestTextsStayTexts(t *testing.T) {
	depend(t)
	rendered := render(t, valuesFile(t, `{routes: {enabled: true, clusterCIDR: "10: a"}, serviceMonitor: {enabled: true, interval: "60"}}`))
	if args := podTemplate(t, rendered).Spec.Containers[0].Args; !slices.Contains(args, "--cluster-cidr=10: a") {
		t.Errorf("the flags are %q", args)
	}
	for _, object := range objects(t, rendered) {
		if object.GetKind() != "ServiceMonitor" {
			continue
		}
		endpoints, _, _ := unstructured.NestedSlice(object.Object, "spec", "endpoints")
		if len(endpoints) != 1 || endpoints[0].(map[string]any)["interval"] != "60" {
			t.Errorf("the endpoints are %v", endpoints)
		}
		return
	}
	t.Error("no ServiceMonitor")
}

// Names that look like numbers stay names.
func TestNamesStayNames(t *testing.T) {
	depend(t)
	rendered := render(t, valuesFile(t, `{providers: [{name: "1", source: {configMap: {namespace: "1234", name: "5678"}}}], modulesNamespace: "99", image: {tag: "1.10"}, priorityClassName: "7"}`))
	if got, want := namedInRoles(t, rendered), "configmaps 5678"; !slices.Contains(got, want) {
		t.Errorf("the roles name %q, want %q", got, want)
	}
	if spec := podTemplate(t, rendered).Spec; spec.PriorityClassName != "7" || !strings.HasSuffix(spec.Containers[0].Image, ":1.10") {
		t.Errorf("priority %q, image %s", spec.PriorityClassName, spec.Containers[0].Image)
	}
	for _, object := range objects(t, rendered) {
		if _, err := object.MarshalJSON(); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
