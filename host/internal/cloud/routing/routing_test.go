package routing

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestEveryMistakeIsNamed(t *testing.T) {
	tests := map[string]struct {
		rules []Rules
		want  []string // nil: no mistake
	}{
		"none":             {nil, nil},
		"one, empty":       {[]Rules{{Provider: "a"}}, nil},
		"two, by name":     {[]Rules{{Provider: "a"}, {Provider: "b"}}, nil},
		"twice itself":     {[]Rules{{Provider: "a", Schemes: []string{"x", "x"}}}, nil},
		"no name":          {[]Rules{{}, {Provider: "b"}}, []string{`provider "": the name is not valid`, `provider "": "" is no scheme`}},
		"name is no label": {[]Rules{{Provider: "A_b"}}, []string{`provider "A_b": the name is not valid`}},
		"same name":        {[]Rules{{Provider: "a"}, {Provider: "a"}}, []string{`provider "a" is there twice`}},
		"by name and scheme": {[]Rules{{Provider: "a"}, {Provider: "b", Schemes: []string{"a"}}},
			[]string{`provider "b": the scheme "a" is already that of provider "a"`}},
		"not schemes": {[]Rules{{Provider: "a", Schemes: []string{"", "a://"}, VolumeSchemes: []string{"v:"}, VolumeDrivers: []string{""}}},
			[]string{`provider "a": "" is no scheme`, `provider "a": "a://" is no scheme`, `provider "a": "v:" is no volume scheme`, `provider "a": "" is no volume driver`}},
		"classes": {[]Rules{{Provider: "a", Classes: []string{"internal-vip", "example.com/vip"}}, {Provider: "b", Classes: []string{"a/b/c", "", "example.com/vip"}}},
			[]string{`provider "b": "a/b/c" is no load balancer class`, `provider "b": "" is no load balancer class`,
				`provider "b": the load balancer class "example.com/vip" is already that of provider "a"`}},
		"all at once": {[]Rules{
			{Provider: "a", DefaultServices: true, VolumeDrivers: []string{"d"}, VolumeSchemes: []string{"v"}},
			{Provider: "b", DefaultServices: true, VolumeDrivers: []string{"d"}, VolumeSchemes: []string{"v"}, Schemes: []string{"a", "no scheme"}},
			{Provider: "b"}},
			[]string{
				`provider "b": the scheme "a" is already that of provider "a"`,
				`provider "b": "no scheme" is no scheme`,
				`provider "b": the volume driver "d" is already that of provider "a"`,
				`provider "b": the volume scheme "v" is already that of provider "a"`,
				`provider "b": the default for Services is already provider "a"`,
				`provider "b" is there twice`,
			}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := New(test.rules)
			if (err != nil) != (test.want != nil) || (r == nil) != (err != nil) {
				t.Fatalf("%v, %v; want mistakes %q", r, err, test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwithout %q", err, want)
				}
			}
			if err != nil && strings.Count(err.Error(), "\n")+1 != len(test.want) {
				t.Errorf("%v\nwant %d mistakes", err, len(test.want))
			}
		})
	}
}

func TestOneProviderHasEverything(t *testing.T) {
	r := mustNew(t, Rules{Provider: "a"})
	if r.Nodes("a") != nil || r.OwnedNodes("a") != nil || r.PersistentVolumes("a") != nil {
		t.Error("a predicate is not nil")
	}
	// Its Nodes are all its own, so it is asked about each.
	cloud := &fakeCloud{exists: func(*corev1.Node) (bool, error) { return false, nil }}
	if exists, err := instancesOf(t, r.Cloud("a", cloud, CloudOptions{})).InstanceExists(t.Context(), node("x://1", "b")); exists || err != nil {
		t.Errorf("a Node of any mark: exists %v, %v", exists, err)
	}
	for _, s := range []*corev1.Service{service("", ""), service("", "y"), service("a", "y")} {
		if !r.Services("a")(s) || r.UnroutedService(s) {
			t.Errorf("Service with labels %v and annotations %v is nobody's", s.Labels, s.Annotations)
		}
	}
	if r.UnroutedNode(tainted(node("x://1", ""))) || !r.Everything() {
		t.Error("a Node is nobody's")
	}
	// But what a provider that was taken out of the configuration has is not its:
	// it would say that there is no load balancer, and the finalizer would go.
	if s := service("x", "a"); r.Services("a")(s) || !r.UnroutedService(s) || !strings.Contains(r.table().adviseService(s), "Configure that provider again") {
		t.Errorf("a load balancer of another provider: %q", r.table().adviseService(s))
	}
	if r := mustNew(t, Rules{Provider: "a", DefaultServices: true}); r.Services("a") == nil {
		t.Error("one provider with rules has everything")
	}
}

func TestWhoseNode(t *testing.T) {
	tests := map[string]struct {
		node       *corev1.Node
		owned, may string
	}{
		"scheme is the name":                  {node("a:///1", ""), "a", "a"},
		"one of two schemes":                  {node("b2://1", ""), "b", "b"},
		"the name is no scheme then":          {node("b://1", ""), "", ""},
		"scheme before label":                 {node("a://1", "b"), "a", "a"},
		"unknown scheme, label does not help": {node("kind://1", "a"), "", ""},
		"no scheme":                           {node("i-1234", "a"), "", ""},
		"empty scheme":                        {node("://a", ""), "", ""},
		"case counts":                         {node("A://1", ""), "", ""},
		"label":                               {node("", "b"), "b", "b"},
		"unknown label":                       {node("", "x"), "", ""},
		"nothing: a and b may be asked":       {node("", ""), "", "a b"},
	}
	r := mustNew(t, Rules{Provider: "a", AskNodes: true}, Rules{Provider: "b", Schemes: []string{"b1", "b2"}, AskNodes: true}, Rules{Provider: "c"})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ownersOf(r.OwnedNodes, test.node); got != test.owned {
				t.Errorf("owned by %q, want %q", got, test.owned)
			}
			if got := ownersOf(r.Nodes, test.node); got != test.may {
				t.Errorf("seen by %q, want %q", got, test.may)
			}
		})
	}
}

func TestWhoseService(t *testing.T) {
	tests := map[string]struct {
		service *corev1.Service
		want    string
	}{
		"default":                            {service("", ""), "a"},
		"annotation":                         {service("", "b"), "b"},
		"owner before annotation":            {service("a", "b"), "a"},
		"unknown annotation is no default":   {service("", "x"), ""},
		"unknown owner is no annotation":     {service("x", "b"), ""},
		"a scheme is no name":                {service("", "b1"), ""},
		"the owner as the user's is nothing": {service("b", "x"), "b"},
	}
	r := mustNew(t, Rules{Provider: "a", DefaultServices: true}, Rules{Provider: "b", Schemes: []string{"b1"}}, Rules{Provider: "c"})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ownersOf(r.Services, test.service); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	none := mustNew(t, Rules{Provider: "a"}, Rules{Provider: "b"}, Rules{Provider: "c"})
	if got := ownersOf(none.Services, service("", "")); got != "" {
		t.Errorf("without a default: %q", got)
	}
}

func TestWhoseVolume(t *testing.T) {
	csi := func(driver, handle string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
	}
	tests := map[string]struct {
		source corev1.PersistentVolumeSource
		want   string
	}{
		"driver":                   {csi("csi.a", "1"), "a"},
		"driver before handle":     {csi("csi.a", "vol-b://1"), "a"},
		"handle":                   {csi("csi.x", "vol-b://1"), "b"},
		"neither":                  {csi("csi.x", "1"), ""},
		"no driver":                {csi("", ""), ""},
		"in-tree with a scheme":    {corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-a://z/1"}}, "a"},
		"in-tree without a scheme": {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "1"}}, ""},
		"no cloud's":               {corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "vol-a://1"}}, ""},
		"nothing":                  {corev1.PersistentVolumeSource{}, ""},
	}
	r := two(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: test.source}}
			if got := ownersOf(r.PersistentVolumes, pv); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// ownersOf returns those of a few providers, known or not, to which the object
// belongs.
func ownersOf[T any](predicate func(string) func(T) bool, object T) string {
	var names []string
	for _, name := range []string{"a", "b", "c", "", "x"} {
		if predicate(name)(object) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// TestNoObjectHasTwoProviders makes routers and objects of a few words, so that
// they meet often.
func TestNoObjectHasTwoProviders(t *testing.T) {
	words := []string{"", "a", "b", "c", "x", "A", "://"}
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return words[random.IntN(len(words))] }
	some := func() (list []string) {
		for range random.IntN(3) {
			list = append(list, word())
		}
		return list
	}
	flip := func() bool { return random.IntN(2) == 0 }
	someClasses := func() []string {
		valid := []string{"a", "b", "c", "x"}
		return valid[:random.IntN(2)*random.IntN(3)]
	}
	made, owned := 0, 0
	for range 40_000 {
		var rules []Rules
		for range 1 + random.IntN(3) {
			rules = append(rules, Rules{Provider: word(), Schemes: some(), AskNodes: flip(), DefaultServices: random.IntN(4) == 0, Classes: someClasses(), VolumeDrivers: some(), VolumeSchemes: some()})
		}
		r, err := New(rules)
		if err != nil || r.Everything() {
			continue
		}
		made++
		n, s := node(word()+"://"+word(), word()), service(word(), word())
		if flip() {
			n.Spec.ProviderID = word()
		}
		if flip() {
			class(word())(s)
		}
		pv := &corev1.PersistentVolume{}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: word(), VolumeHandle: word() + "://1"}
		before := []any{n.DeepCopy(), s.DeepCopy(), pv.DeepCopy()}

		nodes, services, volumes := ownersOf(r.OwnedNodes, n), ownersOf(r.Services, s), ownersOf(r.PersistentVolumes, pv)
		for _, owners := range []string{nodes, services, volumes} {
			if strings.Contains(owners, " ") {
				t.Fatalf("two owners: %q of %+v, %+v, %+v by %+v", owners, n, s, pv, rules)
			}
		}
		seen := ownersOf(r.Nodes, n)
		switch {
		case nodes != "" && seen != nodes:
			t.Fatalf("node of %q is seen by %q", nodes, seen)
		case nodes == "" && seen != "" && (n.Spec.ProviderID != "" || n.Labels[NodeLabel] != ""):
			t.Fatalf("marked node of nobody is seen by %q: %+v", seen, n)
		}
		foreign := s.Spec.LoadBalancerClass != nil && s.Labels[ServiceOwnerLabel] == "" // perhaps another controller's
		if r.UnroutedService(s) != (services == "" && !foreign) {
			t.Fatalf("service of %q: unrouted %v", services, r.UnroutedService(s))
		}
		if served := ownersOf(r.Classes, s); served != "" && served != services || served == "" && services != "" && s.Spec.LoadBalancerClass != nil {
			t.Fatalf("service of %q and class %v: served by %q", services, s.Spec.LoadBalancerClass, served)
		}
		if unrouted := r.UnroutedNode(tainted(n)); unrouted != (seen == "") {
			t.Fatalf("node seen by %q: unrouted %v", seen, unrouted)
		}
		if diff := cmp.Diff(before, []any{n, s, pv}); diff != "" {
			t.Fatalf("a predicate changed an object: %s", diff)
		}
		if nodes != "" {
			owned++
		}
	}
	if made < 1000 || owned < 100 {
		t.Errorf("only %d routers, %d owned nodes: the test shows nothing", made, owned)
	}
}

func BenchmarkServices(b *testing.B) {
	r, err := New([]Rules{{Provider: "a"}, {Provider: "b", DefaultServices: true}})
	if err != nil {
		b.Fatal(err)
	}
	mine, s := r.Services("b"), service("", "")
	for b.Loop() {
		mine(s)
	}
}
