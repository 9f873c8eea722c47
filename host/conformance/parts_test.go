package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// A guest with kube sees the Nodes and Services of the cases.
func TestTheKitShowsItsCases(t *testing.T) {
	o := Options{Cases: Cases{Nodes: []Node{{Name: "n1"}, {Name: "n2"}}, Services: []corev1.Service{{}}}}.withDefaults()
	s := newSeen(&o)
	for resource, want := range map[string]int{"nodes": 2, "services": 1} {
		data, _, err := s.Read(t.Context(), &abi.KubeRequest{Resource: resource})
		var m abi.KubeResponse
		if err == nil {
			err = m.UnmarshalVT(data)
		}
		if err != nil || len(m.Objects) != want || m.More {
			t.Errorf("%s: %v, %d are shown", resource, err, len(m.Objects))
		}
	}
	if _, _, err := s.Read(t.Context(), &abi.KubeRequest{Resource: "secrets", Namespace: "a", Name: "b"}); err == nil {
		t.Error("a Secret is shown")
	}
}

func TestNormalise(t *testing.T) {
	text := "lb 4711337 web-1000023 port 31080 of 65535\nb 0b4c0a1e-1111-4222-8333-444455556666 10.0.0.1\n\n  a 2026-01-02T03:04:05Z fa:16:3e:00:11:22 2001:db8::1 \n"
	want := []string{"a TIME fa:16:3e:00:11:22 2001:db8::1", "b UUID 10.0.0.1", "lb ID web-ID port 31080 of 65535"}
	if got := normalise(text, false, nil); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	want = []string{"a TIME MAC IP", "b UUID IP", "lb ID web-ID port IGNORED"}
	if got := normalise(text, true, regexp.MustCompile("31080 of 65535")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDiffer(t *testing.T) {
	got := differ([]string{"a", "b", "b", "c"}, []string{"a", "b", "c", "c", "d"})
	if want := []string{"  less: b", "  more: c", "  more: d"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := differ([]string{"a"}, []string{"a"}); got != nil {
		t.Errorf("%q", got)
	}
	if got := differ(nil, strings.Fields("a b c d e f g h i j k l")); len(got) != maxDifferences+1 {
		t.Errorf("%d lines", len(got))
	}
}

func TestUnknownProviderIDs(t *testing.T) {
	for known, want := range map[string]string{
		"openstack:///8b4c0a1e-1111-4222-8333-444455556666": "openstack:///c0ffee00-dead-4bad-8bad-00c0ffee0000",
		"static://worker-1": "static://nobody",
		"nothing":           "",
	} {
		if got := unlike(known, "nobody"); got != want {
			t.Errorf("unlike %s is %q, want %q", known, got, want)
		}
	}
}

func TestSecretsOfADirectory(t *testing.T) {
	dir := fstest.MapFS{
		"kube-system/cloud/password":        {Data: []byte("open-sesame\n")},
		"kube-system/cloud/username":        {Data: []byte("demo-user")},
		"kube-system/other/value":           {Data: []byte("abcdefgh")},
		"kube-system/other/region":          {Data: []byte("region-1")},
		"kube-system/cloud/..data/password": {Data: []byte("not this")},
		"README":                            {Data: []byte("nor this")},
	}
	s, err := ReadSecrets(dir)
	if err != nil {
		t.Fatal(err)
	}
	cloud, other := types.NamespacedName{Namespace: "kube-system", Name: "cloud"}, types.NamespacedName{Namespace: "kube-system", Name: "other"}
	if len(s) != 2 || string(s[cloud]["password"]) != "open-sesame\n" || len(s[cloud]) != 2 {
		t.Errorf("%v", s)
	}
	credentials := []v1alpha1.Credential{{Secret: v1alpha1.Reference(other), PublicKeys: []string{"region"}}}
	values := s.values(credentials)
	if slices.Sort(values); !slices.Equal(values, []string{"abcdefgh", "open-sesame"}) {
		t.Errorf("secret are %q", values)
	}
	wrong := s.spoiled(credentials)
	if string(wrong[cloud]["username"]) != "demo-user" || string(wrong[other]["region"]) != "region-1" ||
		strings.Contains(string(wrong[cloud]["password"]), "sesame") || string(wrong[other]["value"]) == "abcdefgh" {
		t.Errorf("wrong are %q", wrong)
	}
}

func TestUIDs(t *testing.T) {
	if a := string(uidOf("a")); !uuids.MatchString(a) || a == string(uidOf("b")) || a != string(uidOf("a")) {
		t.Errorf("%q", a)
	}
}

func TestPositions(t *testing.T) {
	for name, c := range map[string]struct {
		plan plan
		want string // the disturbed requests: r and w by HTTP, S of the store
	}{
		"all":     {plan{fault: unavailable()}, "rwrwS"},
		"second":  {plan{at: 2, fault: unavailable()}, "w"},
		"onwards": {plan{at: 4, onwards: true, fault: unavailable()}, "wS"},
		"writes":  {plan{at: 2, writes: true, fault: unavailable()}, "w"},
		"none":    {*patient(), ""},
		"reads":   {plan{fault: &fault{readsOnly: true}}, "rr"},
	} {
		got := ""
		for _, request := range []struct {
			name         string
			write, store bool
		}{{"r", false, false}, {"w", true, false}, {"r", false, false}, {"w", true, false}, {"S", false, true}} {
			if c.plan.meets(request.write, request.store) {
				got += request.name
			}
		}
		if got != c.want || c.plan.fired != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The kit's Services are as complex as those of charts.
func TestTheServicesAreAsChartsMakeThem(t *testing.T) {
	c := Cases{}.withDefaults()
	if s := c.Services[0]; len(s.Labels) < 5 || len(s.Annotations) < 2 {
		t.Errorf("labels %v, annotations %v", s.Labels, s.Annotations)
	}
	var own corev1.Service
	own.Name, own.Labels = "web", map[string]string{"a": "b"}
	if s := (Cases{Services: []corev1.Service{own}}).withDefaults().Services[0]; len(s.Labels) != 1 || s.Annotations != nil {
		t.Errorf("labels %v, annotations %v of a case that has its own", s.Labels, s.Annotations)
	}
}
