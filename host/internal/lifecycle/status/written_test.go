package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// writtenRecord is that of an earlier release, with each of its names.
const writtenRecord = `{"saved":[{"name":"static","version":"v1","digest":"d","configDigest":"c","revision":"r","imageDigest":"sha256:i","engine":"wazero","kept":true}],` +
	`"refused":[{"revision":"new+h1@wasmtime","scope":"Module","module":"n","phase":"RolledBack","reason":"ByOperator","message":"m","stands":true},{"revision":"old","phase":"Held"}],` +
	`"generation":7,"paused":true,"held":"bundle r",` +
	`"history":[{"digest":"d","revision":"r","generation":7,"offered":"2026-11-21T15:04:05Z","from":"2026-11-21T15:04:05Z","until":"2026-11-21T15:04:06Z","kept":"2026-11-21T15:04:05Z","calls":1,"failures":2,"questions":3,"why":"Replaced","by":"jane"}]}`

// A manager reads the record of the one before it, and writes one that that reads.
func TestTheWrittenRecordStays(t *testing.T) {
	cm := kept("main", "")
	cm.Data["record"] = writtenRecord
	client := fake.NewClientset(cm)
	r, err := object(client).Load(t.Context())
	must(t, err)
	if newest := r.Refused[1]; newest.Revision != (rollout.Revision{Module: "n", Bundle: "new", Terms: "h1@wasmtime"}) || newest.Scope != rollout.ScopeModule || !newest.Stands || r.Saved[0].Engine != "wazero" || !r.Paused || r.History[0].By != "jane" {
		t.Errorf("%+v", r)
	}
	must(t, object(client).Save(t.Context(), r, nil))
	cm, err = client.CoreV1().ConfigMaps(namespace).Get(t.Context(), status.Name("main"), metav1.GetOptions{})
	must(t, err)
	if diff := cmp.Diff(names(t, writtenRecord), names(t, cm.Data["record"])); diff != "" {
		t.Error(diff)
	}
}

const writtenStatus = `candidate: &m {name: m, version: "1", digest: d, configDigest: c, revision: r+h, imageDigest: "sha256:i", engine: wazero}
conditions: [{type: Durable, status: "True", reason: Written, message: "", lastTransitionTime: null}]
generation: 3
good: *m
manager: v1
message: m
offered: *m
paused: true
phase: Kept
providers: [main]
reason: r
serving: *m
since: "2026-11-21T15:04:05Z"
`

// The status has what a person may look for, and nothing that only a running manager knows.
func TestTheWrittenStatusStays(t *testing.T) {
	m := &v1alpha1.Module{Name: "m", Version: "1", Digest: "d", ConfigDigest: "c", Revision: "r+h", ImageDigest: "sha256:i", Engine: "wazero"}
	o := object(fake.NewClientset(&corev1.ConfigMap{}))
	o.Publish(status.Status{Manager: "v1", Providers: []string{"main"}, Provider: v1alpha1.Provider{
		Phase: "Kept", Reason: "r", Message: "m", Since: metav1.NewTime(now), Generation: 3, Paused: true, Serving: m, Offered: m, Candidate: m, Good: m,
		Conditions: []metav1.Condition{{Type: "Durable", Status: "True", Reason: "Written"}}, Hosts: []v1alpha1.Host{{Host: "h"}},
	}})
	text, err := yaml.Marshal(o.Newest())
	must(t, err)
	if diff := cmp.Diff(names(t, writtenStatus), names(t, string(text))); diff != "" {
		t.Error(diff)
	}
	if name := o.Newest().Provider.Name; name != "main" {
		t.Errorf("the API has it as %q", name)
	}
}

func names(t *testing.T, text string) (all map[string]any) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(text), &all))
	return all
}
