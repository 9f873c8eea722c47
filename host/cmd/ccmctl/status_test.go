package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The source of a provider is named with the digest of what it holds, of an image that of
// the image, and its configuration, if another one serves.
func TestStatusNamesTheSources(t *testing.T) {
	module := strings.Repeat("a", 64)
	for want, p := range map[string]v1alpha1.Provider{
		"   configmap kube-system/cloud sha256:aaaaaaaaaaaa\n": {Source: &v1alpha1.Object{Kind: "ConfigMap", Namespace: "kube-system", Name: "cloud"}, Offered: &v1alpha1.Module{Digest: module}},
		"   image registry.example/cloud:v1 sha256:bbbbbbbbbbbb\n": {Source: &v1alpha1.Object{Kind: "Image", Name: "registry.example/cloud:v1"},
			Offered: &v1alpha1.Module{Digest: module, ImageDigest: "sha256:" + strings.Repeat("b", 64)}},
		"   configmap kube-system/cloud sha256:aaaaaaaaaaaa, configuration sha256:bbbbbbbbbbbb (cccccccccccc serves)\n": {Source: &v1alpha1.Object{Kind: "ConfigMap", Namespace: "kube-system", Name: "cloud"},
			Offered: &v1alpha1.Module{Digest: module, ConfigDigest: strings.Repeat("b", 64)}, Serving: &v1alpha1.Module{Digest: module, ConfigDigest: strings.Repeat("c", 64)}},
		"   sha256:aaaaaaaaaaaa, a private configuration (cccccccccccc serves)\n":            {Offered: &v1alpha1.Module{Digest: module}, Serving: &v1alpha1.Module{Digest: module, ConfigDigest: strings.Repeat("c", 64)}},
		"   sha256:aaaaaaaaaaaa, configuration sha256:bbbbbbbbbbbb (a private one serves)\n": {Offered: &v1alpha1.Module{Digest: module, ConfigDigest: strings.Repeat("b", 64)}, Serving: &v1alpha1.Module{Digest: module}},
		"   directory /provider\n":          {Source: &v1alpha1.Object{Kind: "Directory", Name: "/provider"}},
		"   sha256:aaaaaaaaaaaa\n":          {Offered: &v1alpha1.Module{Digest: module}}, // of a manager of an earlier release
		"   -          -       0       -\n": {},
	} {
		var out bytes.Buffer
		if err := printStatus(&out, "table", &v1alpha1.Status{Providers: []v1alpha1.Provider{p}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Of many stuck objects the first are named, in order, and the others are
// counted, including those that the manager does not name.
func TestStatusNamesTheFirstThatAreStuck(t *testing.T) {
	stuck := func(kind, name string) v1alpha1.Explanation {
		return v1alpha1.Explanation{Object: v1alpha1.Object{Kind: kind, Name: name}, Cause: "Refused", Message: "no"}
	}
	p := v1alpha1.Provider{Name: "a", Services: &v1alpha1.Objects{}, Nodes: &v1alpha1.Objects{Stuck: 70}}
	for n := range v1alpha1.MaxStuck {
		p.Stuck = append(p.Stuck, stuck("Node", fmt.Sprintf("worker-%02d", 99-n)))
	}
	p.Paused = true
	status := &v1alpha1.Status{Manager: v1alpha1.Manager{Namespace: "ccm"}, Providers: []v1alpha1.Provider{p}, Nobodys: []v1alpha1.Explanation{stuck("Node", "aaa")}}
	for output, want := range map[string][]string{
		"table": {"Stuck:\n  node aaa: Refused: no\n  node worker-50: ", "  node worker-58: Refused: no\n  and 61 more\n", "ccmctl why node aaa --manager-namespace ccm\n", "until: ccmctl rollout pause a --resume --manager-namespace ccm\n"},
		"wide":  {"  node worker-99: Refused: no\n  and 20 more\n"},
	} {
		var out bytes.Buffer
		if err := printStatus(&out, output, status); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", output, text, out.String())
			}
		}
	}
}

// Of a module whose former configuration serves again, what is offered does not serve, and
// --wait goes on.
func TestWaitForTheOfferedConfiguration(t *testing.T) {
	p := v1alpha1.Provider{Name: "a", Phase: v1alpha1.PhaseKept, Offered: &v1alpha1.Module{Digest: "m", ConfigDigest: "new"}, Serving: &v1alpha1.Module{Digest: "m", ConfigDigest: "new"}}
	status := &v1alpha1.Status{Manager: v1alpha1.Manager{Leads: true}, Providers: []v1alpha1.Provider{p}}
	if said := unready(status); said != "" {
		t.Error(said)
	}
	status.Providers[0].Serving.ConfigDigest = "old"
	if said := unready(status); !strings.Contains(said, "does not serve what is offered") {
		t.Errorf("%q", said)
	}
	status.Providers[0].Serving.ConfigDigest = "new" // or of a private one none: nothing tells the two apart but the phase
	for _, phase := range []string{v1alpha1.PhaseRolledBack, v1alpha1.PhaseLoading, v1alpha1.PhaseCompiled} {
		status.Providers[0].Phase = phase
		if said := unready(status); !strings.Contains(said, "does not serve what is offered") {
			t.Errorf("%s: %q", phase, said)
		}
	}
}
