package kubecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// world has caches over a client, and what they have refused.
type world struct {
	*Caches
	mu      sync.Mutex
	refused []string
	running sync.WaitGroup
}

func newWorld(t *testing.T, client kubernetes.Interface) *world {
	w := &world{}
	life, end := context.WithCancel(context.Background())
	w.Caches = New(Options{Client: client, Go: func(_ string, run func(context.Context)) {
		w.running.Go(func() { run(life) })
	}})
	t.Cleanup(func() {
		end()
		w.running.Wait() // the end of the manager ends every watch
	})
	return w
}

func (w *world) open(t *testing.T, g Grant) *View {
	v := w.Open(g, func(what, advice string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, what+": "+advice)
	})
	t.Cleanup(v.Close)
	return v
}

// ask reads one page.
func ask(t *testing.T, v *View, generation uint64, request *abi.KubeRequest) (*abi.KubeResponse, error) {
	t.Helper()
	data, cost, err := v.Read(t.Context(), generation, request)
	if err != nil {
		return &abi.KubeResponse{}, err
	}
	var m abi.KubeResponse
	if err := m.UnmarshalVT(data); err != nil || cost < len(data) || len(m.Cursor) == 0 {
		t.Fatalf("%v, cost %d of %d bytes, cursor %x", err, cost, len(data), m.Cursor)
	}
	return &m, nil
}

func names(r *abi.KubeResponse) (all []string) {
	for _, o := range r.Objects {
		all = append(all, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	}
	slices.Sort(all)
	return all
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func cluster() *fake.Clientset {
	return fake.NewClientset(
		&corev1.Node{ObjectMeta: meta("", "n1")}, &corev1.Node{ObjectMeta: meta("", "n2")},
		&corev1.Service{ObjectMeta: meta("a", "s1")}, &corev1.Service{ObjectMeta: meta("b", "s2")},
		&discoveryv1.EndpointSlice{ObjectMeta: meta("a", "e1")}, &discoveryv1.EndpointSlice{ObjectMeta: meta("b", "e2")},
		&corev1.ConfigMap{ObjectMeta: meta("a", "c1")}, &corev1.ConfigMap{ObjectMeta: meta("a", "c2")},
		&corev1.Secret{ObjectMeta: meta("a", "k1")}, &corev1.Secret{ObjectMeta: meta("a", "k2")},
	)
}

func TestWhatIsGrantedIsRead(t *testing.T) {
	everything := Grant{Nodes: true, Services: []string{All}, EndpointSlices: []string{All}}
	some := Grant{Services: []string{"a"}, EndpointSlices: []string{"a"}, ConfigMaps: []Name{{"a", "c1"}}, Secrets: []Name{{"a", "k1"}}}
	tests := map[string]struct {
		grant                     Grant
		resource, namespace, name string
		want, denied              string
	}{
		"nodes":                          {everything, Nodes, "", "", "n1 n2", ""},
		"one node":                       {everything, Nodes, "", "n2", "n2", ""},
		"nodes, not granted":             {some, Nodes, "", "", "", "providers[].kube.nodes"},
		"services":                       {everything, Services, "", "", "a/s1 b/s2", ""},
		"services of a namespace of all": {everything, Services, "b", "", "b/s2", ""},
		"services of a namespace":        {some, Services, "a", "", "a/s1", ""},
		"another namespace":              {some, Services, "b", "", "", `add "b" to providers[].kube.services`},
		"all namespaces":                 {some, Services, "", "", "", `ask for each of the namespaces ["a"]`},
		"a name in all namespaces":       {some, Services, "", "s1", "", `ask for each of the namespaces ["a"]`},
		"slices":                         {everything, EndpointSlices, "", "", "a/e1 b/e2", ""},
		"slices of a namespace":          {some, EndpointSlices, "a", "", "a/e1", ""},
		"slices of another":              {some, EndpointSlices, "b", "", "", "providers[].kube.endpointSlices"},
		"a ConfigMap":                    {some, ConfigMaps, "a", "c1", "a/c1", ""},
		"another ConfigMap":              {some, ConfigMaps, "a", "c2", "", "add {namespace: a, name: c2} to providers[].kube.configMaps"},
		"ConfigMaps":                     {some, ConfigMaps, "a", "", "", "one by one"},
		"ConfigMaps, all granted":        {everything, ConfigMaps, "", "", "", "one by one"},
		"a Secret":                       {some, Secrets, "a", "k1", "a/k1", ""},
		"another Secret":                 {some, Secrets, "a", "k2", "", "add {namespace: a, name: k2} to providers[].kube.secrets"},
		"a Secret of two":                {some, Secrets, "a", "k2}, {namespace: kube-system, name: cloud", "", "not granted; no object can have this name"},
		"Secrets":                        {some, Secrets, "", "", "", "one by one"},
		"the star is no namespace":       {some, Services, "*", "", "", `add "*"`},
	}
	w := newWorld(t, cluster())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := ask(t, w.open(t, test.grant), 1, &abi.KubeRequest{Resource: test.resource, Namespace: test.namespace, Name: test.name})
			var e *abi.Error
			switch {
			case test.denied == "" && err != nil:
				t.Error(err)
			case test.denied != "" && (!errors.As(err, &e) || e.Code != abi.CodeDenied || !strings.Contains(e.Message, test.denied)):
				t.Errorf("%v, want %s", err, test.denied)
			case strings.Join(names(r), " ") != test.want:
				t.Errorf("read are %q", names(r))
			}
		})
	}
}

func TestARefusalIsToldOnce(t *testing.T) {
	w := newWorld(t, cluster())
	v := w.open(t, Grant{})
	for i := range 1000 {
		if _, err := ask(t, v, 1, &abi.KubeRequest{Resource: Secrets, Namespace: "a", Name: fmt.Sprint(i % 100)}); err == nil {
			t.Fatal("it was not refused")
		}
	}
	if len(w.refused) != maxRefusals {
		t.Errorf("%d lines, want %d", len(w.refused), maxRefusals)
	}
	var e *abi.Error
	if _, err := ask(t, v, 1, &abi.KubeRequest{Resource: "pods"}); !errors.As(err, &e) || e.Code != abi.CodeInvalid {
		t.Errorf("pods: %v", err)
	}
}

// A cursor that is not of this watch, generation and question reads everything.
func TestCursors(t *testing.T) {
	w := newWorld(t, cluster())
	v := w.open(t, Grant{Nodes: true, Services: []string{All}})
	first, err := ask(t, v, 1, &abi.KubeRequest{Resource: Nodes})
	must(t, err)
	one, err := ask(t, v, 1, &abi.KubeRequest{Resource: Nodes, Limit: 1})
	must(t, err)
	if len(one.Objects) != 1 || !one.More {
		t.Errorf("a page of one has %v, more is %v", names(one), one.More)
	}
	rest, err := ask(t, v, 1, &abi.KubeRequest{Resource: Nodes, Limit: 4e9, Cursor: one.Cursor})
	must(t, err)
	if len(rest.Objects) != 1 || rest.More || rest.Restarted {
		t.Errorf("the rest is %v", rest)
	}
	same := first.Cursor
	future := scopeOf(1, v.watches[target{resource: Nodes}].id, &abi.KubeRequest{Resource: Nodes}).append(nil, position{number: 1 << 40})
	for name, test := range map[string]struct {
		generation uint64
		request    *abi.KubeRequest
		restarted  bool
	}{
		"same":               {1, &abi.KubeRequest{Resource: Nodes, Cursor: same}, false},
		"another generation": {2, &abi.KubeRequest{Resource: Nodes, Cursor: same}, true},
		"another name":       {1, &abi.KubeRequest{Resource: Nodes, Name: "n1", Cursor: same}, true},
		"another resource":   {1, &abi.KubeRequest{Resource: Services, Cursor: same}, true},
		"cut":                {1, &abi.KubeRequest{Resource: Nodes, Cursor: same[:23]}, true},
		"longer":             {1, &abi.KubeRequest{Resource: Nodes, Cursor: append(slices.Clone(same), 0)}, true},
		"garbage":            {1, &abi.KubeRequest{Resource: Nodes, Cursor: []byte("garbage")}, true},
		"of the future":      {1, &abi.KubeRequest{Resource: Nodes, Cursor: future}, true},
	} {
		r, err := ask(t, v, test.generation, test.request)
		must(t, err)
		if r.Restarted != test.restarted || (len(r.Objects) > 0) != test.restarted {
			t.Errorf("%s: restarted is %v, read are %q", name, r.Restarted, names(r))
		}
	}
}

// Whatever is done in other namespaces, the answers about one are the same bytes at the
// same price, for each resource and however wide its watch is.
func TestAnswersTellNothingOfOtherNamespaces(t *testing.T) {
	narrow := Grant{Services: []string{"a"}, EndpointSlices: []string{"a"}, ConfigMaps: []Name{{"a", "c1"}}, Secrets: []Name{{"a", "k1"}}}
	wide := Grant{Services: []string{All}, EndpointSlices: []string{All}, ConfigMaps: narrow.ConfigMaps, Secrets: narrow.Secrets}
	for resource, test := range map[string]struct {
		name  string
		other func(name string) runtime.Object
	}{
		Services:       {"", func(n string) runtime.Object { return &corev1.Service{ObjectMeta: meta("b", n)} }},
		EndpointSlices: {"", func(n string) runtime.Object { return &discoveryv1.EndpointSlice{ObjectMeta: meta("b", n)} }},
		ConfigMaps:     {"c1", func(n string) runtime.Object { return &corev1.ConfigMap{ObjectMeta: meta("b", n)} }},
		Secrets:        {"k1", func(n string) runtime.Object { return &corev1.Secret{ObjectMeta: meta("b", n)} }},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := cluster()
			w := newWorld(t, client)
			for _, v := range []*View{w.open(t, narrow), w.open(t, wide)} {
				request := &abi.KubeRequest{Resource: resource, Namespace: "a", Name: test.name}
				before, price, err := v.Read(t.Context(), 1, request)
				must(t, err)
				synctest.Wait()
				for i := range 20 {
					must(t, client.Tracker().Add(test.other(fmt.Sprint("other", i))))
					synctest.Wait()
				}
				after, now, err := v.Read(t.Context(), 1, request)
				if err != nil || !bytes.Equal(before, after) || price != now {
					t.Errorf("%s: %v, the answer was\n%x for %d and is\n%x for %d", resource, err, before, price, after, now)
				}
				for i := range 20 {
					must(t, client.Tracker().Delete(resources[resource], "b", fmt.Sprint("other", i)))
				}
			}
		})
	}
}

// resources are the groups and versions of what can be read by namespace.
var resources = map[string]schema.GroupVersionResource{
	Services: corev1.SchemeGroupVersion.WithResource(Services), EndpointSlices: discoveryv1.SchemeGroupVersion.WithResource(EndpointSlices),
	ConfigMaps: corev1.SchemeGroupVersion.WithResource(ConfigMaps), Secrets: corev1.SchemeGroupVersion.WithResource(Secrets),
}

// A watch lasts as long as somebody needs it, and no two have the same target.
func TestWatchesAreShared(t *testing.T) {
	client := cluster()
	w := newWorld(t, client)
	a, b := w.open(t, Grant{Nodes: true}), w.open(t, Grant{Nodes: true, Services: []string{"a"}})
	first, err := ask(t, a, 1, &abi.KubeRequest{Resource: Nodes})
	must(t, err)
	a.Close()
	a.Close()
	if r, err := ask(t, b, 1, &abi.KubeRequest{Resource: Nodes, Cursor: first.Cursor}); err != nil || r.Restarted {
		t.Errorf("%v: the watch has ended with one of its users", err)
	}
	if len(w.watches) != 2 {
		t.Errorf("%d watches", len(w.watches))
	}
	b.Close()
	if len(w.watches) != 0 {
		t.Errorf("%d watches are left", len(w.watches))
	}
	w.running.Wait() // they end by themselves
}

// What cannot be read yet says why, and soon.
func TestUnread(t *testing.T) {
	client := cluster()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no rule for it"))
	})
	v := newWorld(t, client).open(t, Grant{Nodes: true})
	for { // until the first try has failed
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, _, err := v.Read(ctx, 1, &abi.KubeRequest{Resource: Nodes})
		cancel()
		var e *abi.Error
		if !errors.As(err, &e) || e.Code != abi.CodeUnavailable {
			t.Fatal(err)
		}
		if strings.Contains(e.Message, "no rule for it") {
			return
		}
	}
}

func TestPatch(t *testing.T) {
	service := &corev1.ObjectReference{Kind: "Service", Namespace: "a", Name: "s1", UID: "u1"}
	grant := Grant{Annotations: []string{"example.com/*", "plain", "kubernetes.io/description", "service.kubernetes.io/topology-mode"}, Labels: []string{"example.com/tier"}}
	long := map[string]string{"plain": strings.Repeat("x", maxPatchBytes)}
	many := map[string]string{}
	for i := range maxPatchKeys + 1 {
		many[fmt.Sprint("example.com/", i)] = ""
	}
	annotate := func(key string) *abi.KubePatch {
		return &abi.KubePatch{Annotations: map[string]string{key: "v"}}
	}
	tests := map[string]struct {
		own   *corev1.ObjectReference
		patch *abi.KubePatch
		code  abi.Code
		want  string // the patch, or in the message
	}{
		"annotations": {service, &abi.KubePatch{Uid: "u1", Annotations: map[string]string{"plain": `"<`}, RemoveAnnotations: []string{"example.com/a"}}, 0,
			`{"metadata":{"uid":"u1","annotations":{"example.com/a":null,"plain":"\"\u003c"}}}`},
		"labels":           {service, &abi.KubePatch{Labels: map[string]string{"example.com/tier": "x"}}, 0, `{"metadata":{"uid":"u1","labels":{"example.com/tier":"x"}}}`},
		"a key for people": {service, annotate("kubernetes.io/description"), 0, `{"metadata":{"uid":"u1","annotations":{"kubernetes.io/description":"v"}}}`},

		"no object":               {nil, annotate("plain"), abi.CodeNotFound, "no Node and no Service"},
		"a volume":                {&corev1.ObjectReference{Kind: "PersistentVolume", Name: "s1", UID: "u"}, annotate("plain"), abi.CodeNotFound, "no Node"},
		"the Node of a route":     {&corev1.ObjectReference{Kind: "Node", Name: "s1"}, annotate("plain"), abi.CodeNotFound, "no Node"},
		"another Service":         {&corev1.ObjectReference{Kind: "Service", Namespace: "a", Name: "s2", UID: "u2"}, annotate("plain"), abi.CodeDenied, "services s2 in the namespace a"},
		"another namespace":       {&corev1.ObjectReference{Kind: "Service", Namespace: "b", Name: "s1", UID: "u2"}, annotate("plain"), abi.CodeDenied, "only the object of the op"},
		"a Node of the same name": {&corev1.ObjectReference{Kind: "Node", Name: "s1", UID: "u2"}, annotate("plain"), abi.CodeDenied, "only the object of the op"},
		"made again":              {service, &abi.KubePatch{Uid: "u0", Annotations: map[string]string{"plain": ""}}, abi.CodeConflict, "another UID"},
		"nothing":                 {service, &abi.KubePatch{}, abi.CodeInvalid, "0 keys"},
		"many":                    {service, &abi.KubePatch{Annotations: many}, abi.CodeInvalid, "65 keys"},
		"long":                    {service, &abi.KubePatch{Annotations: long}, abi.CodeTooLarge, "16384"},
		"twice":                   {service, &abi.KubePatch{Annotations: map[string]string{"plain": ""}, RemoveAnnotations: []string{"plain"}}, abi.CodeInvalid, "twice"},
		"not granted":             {service, annotate("other"), abi.CodeDenied, "add it to providers[].kube.annotations"},
		"granted to the other":    {service, &abi.KubePatch{Labels: map[string]string{"plain": "x"}}, abi.CodeDenied, "kube.labels"},
		"removal, not granted":    {service, &abi.KubePatch{RemoveLabels: []string{"plain"}}, abi.CodeDenied, "kube.labels"},
		"of Kubernetes":           {service, annotate("service.kubernetes.io/topology-mode"), abi.CodeDenied, "cannot be granted: keys of service.kubernetes.io"},
		"the manager's own":       {service, annotate("wasm-ccm.dev/provider"), abi.CodeDenied, "cannot be granted"},
		"below the manager's own": {service, annotate("x.wasm-ccm.dev/provider"), abi.CodeDenied, "cannot be granted"},
		"a domain is no key":      {service, annotate("example.com"), abi.CodeDenied, "add it"},
		"a star is no key":        {service, annotate("example.com/*"), abi.CodeDenied, ""},
		"no key":                  {service, annotate("example.com/a b"), abi.CodeDenied, "cannot be granted"},
		"a label's value":         {service, &abi.KubePatch{Labels: map[string]string{"example.com/tier": "a b"}}, abi.CodeInvalid, "example.com/tier"},
	}
	v := newWorld(t, cluster()).open(t, grant)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := v.Patch(&abi.KubeRequest{Resource: Services, Namespace: "a", Name: "s1", Patch: test.patch}, test.own)
			var e *abi.Error
			switch {
			case test.code == 0 && (err != nil || string(p.data) != test.want):
				t.Errorf("%v, %s", err, p.data)
			case test.code != 0 && (!errors.As(err, &e) || e.Code != test.code || !strings.Contains(e.Message, test.want)):
				t.Errorf("%v, want %s: %s", err, test.code, test.want)
			}
		})
	}
}

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"plain": true, "example.com/a": true, "example.com/*": true, "notkubernetes.io/*": true, "mywasm-ccm.dev/*": true,
		"": false, "*": false, "/*": false, "a/b/c": false, "example.com/a*": false, "*/a": false, "Example.com/a": false,
		"kubernetes.io/*": false, "x.k8s.io/*": false, "wasm-ccm.dev/*": false, "wasm-ccm.dev/provider": false, "x.wasm-ccm.dev/a": false,
		"node-role.kubernetes.io/control-plane": false, "node-role.kubernetes.io/master": false, "topology.kubernetes.io/zone": false,
		"alpha.kubernetes.io/provided-node-ip": false, "node.kubernetes.io/exclude-from-external-load-balancers": false,
		"service.kubernetes.io/service-proxy-name": false, "service.kubernetes.io/headless": false, "service.kubernetes.io/topology-mode": false,
		"topology.k8s.io/zone": false, "cluster.x-k8s.io/machine": false, "kubernetes.io/description": true, "kubernetes.io/description/*": false,
	} {
		if err := CheckKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}
