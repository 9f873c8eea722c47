package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/check"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

var harmlessTexts = map[string]string{
	"the name of an object, as everybody says it who speaks of the object": `lease.holderIdentity metadata.namespace metadata.name
		reference.kind reference.namespace reference.name podSpec.nodeName podSpec.priorityClassName podSpec.serviceAccountName
		podSpec.volumes.name podSpec.containers.name pods.status.containerStatuses.name workloads.kind managerView.host managerView.holder
		managerView.lease managerView.namespace calls.latest.object findings.where`,
	"a key of a map, never its value; a variable of the environment by its name": `reference.key metadata.annotations taint.key
		podSpec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.key provider.kube.annotations provider.kube.labels credential.publicKeys
		credential.header.key credential.basic.usernameKey credential.basic.passwordKey credential.bearer.key credential.query.key
		credential.oauth2ClientCredentials.clientIDKey credential.oauth2ClientCredentials.clientSecretKey
		credential.awsSigV4.accessKeyIDKey credential.awsSigV4.secretAccessKeyKey credential.awsSigV4.sessionTokenKey`,
	"a name that the administrator gives to a part of the configuration": `provider.name provider.store provider.kube.services
		provider.kube.endpointSlices provider.routing.nodes.schemes provider.routing.services.classes provider.routing.volumes.drivers
		provider.routing.volumes.schemes grant.credentials credential.name credential.awsSigV4.region
		credential.awsSigV4.service moduleSource.directory status.providers.name explanation.provider callKind.provider
		reachability.hosts.provider services.spec.loadBalancerClass`,
	"a name of HTTP, of a header, a cookie or a parameter, without its value": `credential.header.header credential.query.parameter
		credential.bodyTemplate.contentType credential.bodyTemplate.headers credential.session.cookie credential.session.header`,
	"a word of a program's own list; the configuration is refused, or the API server refuses, with another": `provider.engine
		provider.capabilities provider.ops.timeouts moduleSource.oci.pullPolicy grant.scheme grant.methods credential.bodyTemplate.method
		provider.rollout.probe provider.rollout.shadow provider.rollout.observe condition.status podSpec.dnsPolicy taint.operator taint.effect
		podSpec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.operator pods.status.phase nodes.status.addresses.type services.spec.type
		services.spec.ipFamilies services.spec.externalTrafficPolicy services.spec.ports.protocol services.status.loadBalancer.ingress.ipMode
		events.type findings.severity explanation.state status.providers.loops.name status.providers.hosts.breaker op.name op.code callKind.op callKind.method
		callKind.result reachability.hosts.result reachability.hosts.tls`,
	"a reason or a type in one word, which a program has in its code": `condition.type condition.reason pods.status.reason
		containerState.waiting.reason containerState.terminated.reason events.reason events.source.component findings.reason
		providerStatus.phase providerStatus.reason explanation.cause explanation.also.cause metadata.finalizers`,
	"an address or a host, which the help and the README of the bundle name": `endpoint.url endpoint.cidrs grant.host grant.cidrs
		configuration.tracing.endpoint provider.addresses.allow provider.addresses.deny pods.status.hostIP pods.status.podIP
		nodes.spec.podCIDRs nodes.status.addresses.address services.spec.loadBalancerIP services.status.loadBalancer.ingress.ip
		services.status.loadBalancer.ingress.hostname status.providers.hosts.host callKind.host reachability.hosts.host reachability.hosts.address`,
	"the manager puts * for ids, and removes the values of credentials": `callKind.path`,
	"a version, a digest or the name of an image": `versions.ccmctl versions.kubernetes managerView.version providerStatus.manager
		moduleView.name moduleView.version moduleView.digest moduleView.configDigest moduleView.imageDigest moduleView.engine provider.provenance.digests
		moduleSource.oci.reference podSpec.containers.image pods.status.containerStatuses.image pods.status.containerStatuses.imageID
		nodes.status.nodeInfo.kubeletVersion nodes.status.nodeInfo.containerRuntimeVersion nodes.status.nodeInfo.kernelVersion nodes.status.nodeInfo.operatingSystem nodes.status.nodeInfo.architecture`,
	"a machine's name at its cloud, and where it is":                   `nodes.spec.providerID labels.topology.kubernetes.io/region labels.topology.kubernetes.io/zone labels.node.kubernetes.io/instance-type labels.node.kubernetes.io/exclude-from-external-load-balancers`,
	"a label that the chart or the manager writes":                     `labels.helm.sh/chart labels.app.kubernetes.io/version labels.wasm-ccm.dev/provider labels.wasm-ccm.dev/load-balancer-provider labels.wasm-ccm.dev/phase labels.wasm-ccm.dev/reason`,
	"the name of a flag; its value only of the flags in harmlessFlags": `podSpec.containers.args`,
}

// Each text of a bundle is listed above, with the reason why it is no secret,
// and each field has a kind that is known.
func TestBundleFieldsAreHarmless(t *testing.T) {
	reasons := map[string]string{}
	for reason, fields := range harmlessTexts {
		for _, field := range strings.Fields(fields) {
			reasons[field] = reason
		}
	}
	lists := maps.Clone(commonFields)
	for _, d := range documents {
		lists[strings.TrimSuffix(d.file, ".json")] = d.fields
	}
	for name, list := range lists {
		texts, unknown := textsOf(name, list)
		for _, field := range texts {
			if reasons[field] == "" {
				t.Errorf("%s is a text of a bundle: if it can never be a secret, say why in harmlessTexts", field)
			}
			delete(reasons, field)
		}
		if len(unknown) > 0 {
			t.Errorf("no kind or common fields: %s", unknown)
		}
	}
	for field := range reasons {
		t.Errorf("%s is in harmlessTexts, and in no bundle", field)
	}
}

// The guard finds each text that somebody may add, and what is no kind.
func TestBundleFieldsGuardFinds(t *testing.T) {
	texts, unknown := textsOf("added", "new deep{inner:origin at:measure :reference} misspelt:numbr of:metadata")
	if diff := cmp.Diff([]string{"added.new", "added.deep.inner"}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"added.misspelt"}, unknown); diff != "" {
		t.Error(diff)
	}
}

// What stands after a wrong brace would be missing from each bundle, unnoticed.
func TestBundleFieldsGuardFindsWrongBraces(t *testing.T) {
	for _, list := range []string{"a:number} b:number", "a{b:number", "a:number} b{c:number", "a:keys{b:number}", "n:number :op{b:number}"} {
		if _, unknown := textsOf("added", list); len(unknown) == 0 {
			t.Errorf("%q is no mistake", list)
		}
	}
}

// kindOfObject is a kind where an object with its own fields has none.
var kindOfObject = regexp.MustCompile(`:[^\s{}]+\s*{`)

// textsOf are the paths of a list's texts without those of common fields, and of fields
// of an unknown kind.
func textsOf(name, list string) (texts, unknown []string) {
	tokens := slices.DeleteFunc(fieldTokens.FindAllString(list, -1), func(token string) bool {
		_, kind, _ := strings.Cut(token, ":")
		return commonFields[kind] != ""
	})
	fields, rest := parseFields(tokens)
	if rest != nil || strings.Count(list, "{") != strings.Count(list, "}") || kindOfObject.MatchString(list) {
		unknown = append(unknown, name+": its braces")
	}
	for _, f := range fields {
		collect(name+"."+f.name, f, &texts, &unknown)
	}
	return texts, unknown
}

func collect(path string, f field, texts, unknown *[]string) {
	switch f.kind {
	case "", "words", "keys", "flag", "origin":
		*texts = append(*texts, path)
	case object:
		for _, inner := range f.inner {
			collect(path+"."+inner.name, inner, texts, unknown)
		}
	case "number", "measure", "size":
	default:
		*unknown = append(*unknown, path)
	}
}

// Documents in which every text could be a secret leave nothing in the bundle,
// whatever fields upstream adds.
func TestNoSentenceComesIntoABundle(t *testing.T) {
	for _, secret := range []string{"pin is 4711", "a=q7Zk", `{"password":"x"}`, "https://u:p@h/", "user\npassword", "x?sig=q7Zk", "a\"b", "\x00", "ü"} {
		p := &planter{text: secret}
		for file, document := range map[string][]any{
			"nodes.json":          {planted[corev1.Node](p)},
			"services.json":       {planted[corev1.Service](p)},
			"pods.json":           {planted[corev1.Pod](p)},
			"workloads.json":      {planted[appsv1.DaemonSet](p), planted[appsv1.Deployment](p)},
			"events.json":         {planted[corev1.Event](p)},
			"lease.json":          {planted[coordinationv1.LeaseSpec](p)},
			"configuration.json":  {planted[config.HostConfiguration](p)},
			"cloudproviders.json": {planted[config.CloudProvider](p)},
			"providers.json":      {map[string]any{"status": planted[status.Status](p)}},
			"status.json":         {planted[v1alpha1.Status](p)},
			"why.json":            {planted[v1alpha1.Explanation](p)},
			"calls.json":          {planted[v1alpha1.Calls](p)},
			"reachability.json":   {planted[v1alpha1.Reachability](p)},
			"findings.json":       {planted[check.Finding](p)},
			"versions.json":       {map[string]string{"kubernetes": secret}},
		} {
			shown, err := picked(file, document)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			data, err := json.Marshal(shown)
			quoted, _ := json.Marshal(secret)
			if err != nil || !bytes.Contains(data, []byte("[left out: ")) || bytes.Contains(data, bytes.Trim(quoted, `"`)) {
				t.Errorf("%s, planted with %q: %v\n%s", file, secret, err, data)
			}
		}
		if p.n < 100 {
			t.Errorf("%q is planted %d times only", secret, p.n)
		}
	}
}

// planter fills documents with one text everywhere.
type planter struct {
	text string
	n    int
}

func planted[T any](p *planter) *T {
	out := new(T)
	p.fill(reflect.ValueOf(out).Elem(), 0)
	return out
}

func (p *planter) fill(v reflect.Value, depth int) {
	const deepest = 16 // for recursive types
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[metav1.Time](), v.Type() == reflect.TypeFor[metav1.MicroTime](), v.Type() == reflect.TypeFor[resource.Quantity](), depth > deepest:
	case kind == reflect.String:
		v.SetString(p.text)
		p.n++
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		p.fill(v.Elem(), depth+1)
	case kind == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		p.fill(v.Index(0), depth+1)
	case kind == reflect.Map && v.Type().Elem().Kind() == reflect.String:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(p.text).Convert(v.Type().Key()), reflect.ValueOf(p.text).Convert(v.Type().Elem()))
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				p.fill(v.Field(i), depth+1)
			}
		}
	}
}

// Single words stay, with their meaning.
func TestWordsStay(t *testing.T) {
	for _, text := range []string{
		"", "v1.33.2+k3s1", "aws:///eu-central-1a/i-0123", "node.cloudprovider.kubernetes.io/uninitialized", "[fd00::1]:443", "fd00::/8", "lb_ensure", "/v1/lb/*",
		"registry.example.com:5000/a/b:v1@sha256:" + strings.Repeat("0a", 32),
	} {
		if data, err := json.Marshal(word(text)); err != nil || string(data) != fmt.Sprintf("%q", text) {
			t.Errorf("%s becomes %s, %v", text, data, err)
		}
	}
	arguments := []string{"--v=2", "--password=q7Zk", "--token", "q7Zk", "-pq7Zk", "--leader-elect"}
	for _, test := range []struct {
		file, want string
		document   any
	}{
		{"pods.json", `{"spec":{"containers":[{"args":[{"name":"--v","value":"2"},{"name":"--password"},{"name":"--token"},{"name":"--leader-elect"}],"env":[{"name":"A"}],"resources":{}}]}}`, map[string]any{
			"spec": corev1.PodSpec{Containers: []corev1.Container{{Args: arguments, Env: []corev1.EnvVar{{Name: "A", Value: "q7Zk"}}}}},
		}},
		{"configuration.json", `{"providers":{"credentials":{"signer":{"tokens":{"url":"https://h.example.com:8443"}}}}}`, map[string]any{
			"providers": map[string]any{"credentials": map[string]any{"signer": map[string]any{"tokens": map[string]any{"url": "https://u:q7Zk@h.example.com:8443/q7Zk?q7Zk"}}}},
		}},
		// A field has its kind only, whatever a later version makes of it.
		{"calls.json", `{"latest":[{"number":7}]}`, map[string]any{"time": "q7Zk", "latest": []any{map[string]any{"number": 7, "took": "q7Zk", "status": "q7Zk", "path": 7, "op": map[string]any{"q7Zk": "q7Zk"}}}}},
		{"configuration.json", `{"deletionBrake":{"percent":10,"period":"10m0s"}}`, map[string]any{"deletionBrake": map[string]any{"percent": 10, "period": "10m0s"}, "cloudProviders": "q7Zk", "tracing": []string{"q7Zk"}}},
		{"calls.json", `{"counts":[{"last":"2026-11-21T15:04:05.000001Z","longest":"1.5µs","total":"512Mi"},{}]}`, map[string]any{"counts": []any{
			map[string]any{"total": "512Mi", "longest": "1.5µs", "last": "2026-11-21T15:04:05.000001Z"},
			map[string]any{"total": "1e-1000000", "longest": strings.Repeat("9", 1000), "last": "4 711"},
		}}},
	} {
		shown, err := picked(test.file, test.document)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(shown); err != nil || string(data) != test.want {
			t.Errorf("%s: %s, %v, want %s", test.file, data, err, test.want)
		}
	}
}
