package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
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

// harmlessTexts are the texts of a bundle, as TYPE.FIELD, by the reason why they are no secrets.
var harmlessTexts = map[string]string{
	"the name of an object, as everybody says it who speaks of the object": `lease.HolderIdentity metadata.Namespace metadata.Name
		reference.Kind reference.Namespace reference.Name podSpec.NodeName podSpec.PriorityClassName podSpec.ServiceAccountName
		podSpec.Volumes.Name container.Name pod.Status.ContainerStatuses.Name workload.Kind managerView.Host managerView.Holder
		managerView.Lease managerView.Namespace calls.Latest.Object finding.Where`,
	"a key of a map, never its value; a variable of the environment by its name": `reference.Key metadata.Annotations taint.Key
		podSpec.Affinity.NodeAffinity.Required.Terms.Expressions.Key provider.Kube.Annotations provider.Kube.Labels credentialView.PublicKeys
		credentialView.Header.Key credentialView.Basic.UsernameKey credentialView.Basic.PasswordKey credentialView.Bearer.Key credentialView.Query.Key
		credentialView.OAuth2ClientCredentials.ClientIDKey credentialView.OAuth2ClientCredentials.ClientSecretKey
		credentialView.AWSSigV4.AccessKeyIDKey credentialView.AWSSigV4.SecretAccessKeyKey credentialView.AWSSigV4.SessionTokenKey`,
	"a name that the administrator gives to a part of the configuration": `provider.Name provider.Store provider.Kube.Services
		provider.Kube.EndpointSlices provider.Routing.Nodes.Schemes provider.Routing.Services.Classes provider.Routing.Volumes.Drivers
		provider.Routing.Volumes.Schemes grantView.Credentials credentialView.Name credentialView.AWSSigV4.Region
		credentialView.AWSSigV4.Service moduleSource.Directory providerView.Name explanation.Provider callKind.Provider
		reachabilityView.Hosts.Provider service.Spec.Class`,
	"a name of HTTP, of a header, a cookie or a parameter, without its value": `credentialView.Header.Header credentialView.Query.Parameter
		credentialView.BodyTemplate.ContentType credentialView.BodyTemplate.Headers credentialView.Session.Cookie credentialView.Session.Header`,
	"a word of a program's own list; the configuration is refused, or the API server refuses, with another": `provider.Engine
		provider.Capabilities provider.Ops.Timeouts moduleSource.OCI.PullPolicy grantView.Scheme grantView.Methods credentialView.BodyTemplate.Method
		rollout.Probe rollout.Shadow rollout.Observe condition.Status podSpec.DNSPolicy taint.Operator taint.Effect
		podSpec.Affinity.NodeAffinity.Required.Terms.Expressions.Operator pod.Status.Phase node.Status.Addresses.Type service.Spec.Type
		service.Spec.IPFamilies service.Spec.ExternalTrafficPolicy service.Spec.Ports.Protocol service.Status.LoadBalancer.Ingress.IPMode
		event.Type finding.Severity explanation.State providerView.Loops.Name providerView.Hosts.Breaker op.Name op.Code callKind.Op callKind.Method
		callKind.Result reachabilityView.Hosts.Result reachabilityView.Hosts.TLS`,
	"a reason or a type in one word, which a program has in its code": `condition.Type condition.Reason pod.Status.Reason
		containerState.Waiting.Reason containerState.Terminated.Reason event.Reason event.Source.Component finding.Reason
		providerStatus.Phase providerStatus.Reason explanation.Cause explanation.Also.Cause metadata.Finalizers`,
	"an address or a host, which the help and the README of the bundle name": `endpoint.URL endpoint.CIDRs grantView.Host grantView.CIDRs
		configuration.Tracing.Endpoint provider.Addresses.Allow provider.Addresses.Deny pod.Status.HostIP pod.Status.PodIP
		node.Spec.PodCIDRs node.Status.Addresses.Address service.Spec.LoadBalancerIP service.Status.LoadBalancer.Ingress.IP
		service.Status.LoadBalancer.Ingress.Hostname providerView.Hosts.Host callKind.Host reachabilityView.Hosts.Host reachabilityView.Hosts.Address`,
	"the manager puts * for ids, and removes the values of credentials": `callKind.Path`,
	"a version, a digest or the name of an image": `versions.Ccmctl versions.Kubernetes managerView.Version providerStatus.Manager
		moduleView.Name moduleView.Version moduleView.Digest moduleView.ConfigDigest moduleView.ImageDigest moduleView.Engine provider.Provenance.Digests
		moduleSource.OCI.Reference container.Image pod.Status.ContainerStatuses.Image pod.Status.ContainerStatuses.ImageID
		node.Status.NodeInfo.Kubelet node.Status.NodeInfo.Runtime node.Status.NodeInfo.Kernel node.Status.NodeInfo.OS node.Status.NodeInfo.CPU`,
	"a machine's name at its cloud, and where it is":                   `node.Spec.ProviderID labels.Region labels.Zone labels.InstanceType labels.Excluded`,
	"a label that the chart or the manager writes":                     `labels.Chart labels.Release labels.Provider labels.LoadBalancer labels.Phase labels.Reason`,
	"the name of a flag; its value only of the flags in harmlessFlags": `flag.Name flag.Value`,
}

// Each text of a bundle is listed above, with the reason why it is no secret,
// and no field has an open type.
func TestBundleTypesAreHarmless(t *testing.T) {
	reasons := map[string]string{}
	for reason, fields := range harmlessTexts {
		for _, field := range strings.Fields(fields) {
			reasons[field] = reason
		}
	}
	for _, field := range texts(t, reflect.TypeFor[contents]()) {
		if reasons[field] == "" {
			t.Errorf("%s is a text of a bundle: if it can never be a secret, say why in harmlessTexts", field)
		}
		delete(reasons, field)
	}
	for field := range reasons {
		t.Errorf("%s is in harmlessTexts, and in no bundle", field)
	}
}

// The guard finds each kind of field that somebody may add.
func TestBundleTypesGuardFinds(t *testing.T) {
	type added struct {
		New  word
		Deep []struct{ Inner *origin }
	}
	if diff := cmp.Diff([]string{"added.New", "added.Deep.Inner"}, texts(t, reflect.TypeFor[added]())); diff != "" {
		t.Error(diff)
	}
	for _, open := range []any{"", []byte{}, map[string]int{}, json.RawMessage{}, struct{ A any }{}, struct{ M map[word]word }{}} {
		w := walk{seen: map[reflect.Type]bool{}}
		if w.into(reflect.TypeOf(open), "x"); len(w.open) == 0 {
			t.Errorf("a field of type %T may be in a bundle", open)
		}
	}
}

func texts(t *testing.T, of reflect.Type) []string {
	t.Helper()
	w := walk{seen: map[reflect.Type]bool{}}
	w.into(of, of.Name())
	for _, path := range w.open {
		t.Errorf("%s takes whatever text there is: make it a word, or leave it out", path)
	}
	return w.texts
}

// walk visits types, and collects the paths of texts and of open types.
type walk struct {
	seen        map[reflect.Type]bool
	texts, open []string
}

func (w *walk) into(of reflect.Type, path string) {
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[size]():
		return
	case reflect.TypeFor[word](), reflect.TypeFor[origin]():
		w.texts = append(w.texts, path)
		return
	}
	switch kind := of.Kind(); {
	case kind == reflect.Pointer, kind == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
		w.into(of.Elem(), path)
	case kind == reflect.Struct:
		w.fields(of, path)
	case kind >= reflect.Bool && kind <= reflect.Float64:
	default:
		w.open = append(w.open, path)
	}
}

// fields visits each named struct once.
func (w *walk) fields(of reflect.Type, path string) {
	if of.Name() != "" {
		if w.seen[of] {
			return
		}
		w.seen[of] = true
		path = of.Name()
	}
	for i := range of.NumField() {
		w.into(of.Field(i).Type, path+"."+of.Field(i).Name)
	}
}

// Documents in which every text could be a secret leave nothing in the bundle,
// whatever fields upstream adds.
func TestNoSentenceComesIntoABundle(t *testing.T) {
	for _, secret := range []string{"pin is 4711", "a=q7Zk", `{"password":"x"}`, "https://u:p@h/", "user\npassword", "x?sig=q7Zk", "a\"b", "\x00", "ü"} {
		for name, shown := range map[string]func(*planter) (any, error){
			"Node":              func(p *planter) (any, error) { return pick[node](planted[corev1.Node](p)) },
			"Service":           func(p *planter) (any, error) { return pick[service](planted[corev1.Service](p)) },
			"Pod":               func(p *planter) (any, error) { return pick[pod](planted[corev1.Pod](p)) },
			"DaemonSet":         func(p *planter) (any, error) { return pick[workload](planted[appsv1.DaemonSet](p)) },
			"Deployment":        func(p *planter) (any, error) { return pick[workload](planted[appsv1.Deployment](p)) },
			"Event":             func(p *planter) (any, error) { return pick[event](planted[corev1.Event](p)) },
			"Lease":             func(p *planter) (any, error) { return pick[lease](planted[coordinationv1.LeaseSpec](p)) },
			"HostConfiguration": func(p *planter) (any, error) { return pick[configuration](planted[config.HostConfiguration](p)) },
			"CloudProvider":     func(p *planter) (any, error) { return pick[cloudProvider](planted[config.CloudProvider](p)) },
			"Status":            func(p *planter) (any, error) { return pick[managerStatus](planted[v1alpha1.Status](p)) },
			"Explanation":       func(p *planter) (any, error) { return pick[explanation](planted[v1alpha1.Explanation](p)) },
			"Calls":             func(p *planter) (any, error) { return pick[calls](planted[v1alpha1.Calls](p)) },
			"Reachability":      func(p *planter) (any, error) { return pick[reachabilityView](planted[v1alpha1.Reachability](p)) },
			"record":            func(p *planter) (any, error) { return pick[providerStatus](planted[status.Status](p)) },
			"Finding":           func(p *planter) (any, error) { return pick[finding](planted[check.Finding](p)) },
		} {
			p := &planter{text: secret}
			document, err := shown(p)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			data, err := json.Marshal(document)
			quoted, _ := json.Marshal(secret)
			if err != nil || p.n < 3 || bytes.Contains(data, bytes.Trim(quoted, `"`)) {
				t.Errorf("%s, planted %d times with %q: %v\n%s", name, p.n, secret, err, data)
			}
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
	got, err := pick[container](corev1.Container{Args: []string{"--v=2", "--password=q7Zk", "--token", "q7Zk", "-pq7Zk", "--leader-elect"}, Env: []corev1.EnvVar{{Name: "A", Value: "q7Zk"}}})
	if want := (flags{{"--v", "2"}, {"--password", ""}, {"--token", ""}, {"--leader-elect", ""}}); err != nil || !slices.Equal(got.Args, want) {
		t.Errorf("%v, %v", got.Args, err)
	}
	token, err := pick[endpoint](config.Endpoint{URL: "https://u:q7Zk@h.example.com:8443/q7Zk?q7Zk"})
	if err != nil || token.URL != "https://h.example.com:8443" {
		t.Errorf("%v, %v", token.URL, err)
	}
}
