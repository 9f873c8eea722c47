package status_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// The API has all that the ConfigMap says to people, except the bundle's revision and what
// is about the manager.
func TestPublic(t *testing.T) {
	module := &status.Version{Name: "m", Version: "1", Digest: "d", ConfigDigest: "c", Image: "sha256:i", Engine: "wazero"}
	written := status.Status{
		Phase: "Kept", Reason: "r", Message: "m", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Generation: 3, Paused: true,
		Serving: module, Offered: module, Candidate: module, Good: module, Conditions: []metav1.Condition{{Type: "Durable"}},
	}
	want, got := fields(t, written), fields(t, written.Public("p"))
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s, want %s", key, got[key], value)
		}
	}
	if len(want) != 11 || got["name"] != `"p"` {
		t.Errorf("%d fields, name %s", len(want), got["name"])
	}
}

func fields(t *testing.T, object any) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for key, value := range raw {
		all[key] = string(value)
	}
	return all
}
