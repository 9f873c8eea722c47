package shadow

import (
	"context"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// A replayed op reads the objects of the cluster as they are now, since its
// instance has a cursor of its own or none. Where they have changed since the op was
// recorded, another answer is no difference.
func TestObjectsAreReadAgain(t *testing.T) {
	now := "7"
	memory := hostFunc(func(_ context.Context, name string, request []byte) (abi.Code, []byte) {
		if name != abi.CapabilityKube {
			t.Errorf("a replayed op reached the real host call %s", name)
		}
		if decoded(t, request, &abi.KubeRequest{}).GetResource() == "secrets" || now == "away" {
			return abi.CodeDenied, nil
		}
		return abi.CodeOK, encoded(&abi.KubeResponse{Cursor: []byte(now)})
	})
	// zoned answers with a zone, after reads with a cursor.
	zoned := func(zone, cursor string, resources ...string) func(hostCall, abi.Op, []byte) (abi.Code, []byte, error) {
		return func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
			for _, resource := range resources {
				code, result := call(abi.CapabilityKube, &abi.KubeRequest{Resource: resource, Cursor: []byte(cursor)})
				if code == abi.CodeOK && string(decoded(t, result, &abi.KubeResponse{}).GetCursor()) != now {
					t.Errorf("%s: the answer is not that of now", resource)
				}
			}
			return abi.CodeOK, metadata(zone), nil
		}
	}
	samples := record(t, memory, abi.OpInstanceMetadata, aboutNode("n"), zoned("a", "6", "nodes", "secrets"))
	for _, test := range []struct {
		name, now, zone string
		reads           []string
		want            Report
		reason          string
	}{
		{"the same", "7", "a", []string{"nodes", "secrets"}, Report{Same: 1}, ""},
		{"different", "7", "b", []string{"nodes", "secrets"}, Report{Different: 1}, ""},
		{"changed, the same", "8", "a", []string{"nodes"}, Report{Same: 1}, ""},
		{"changed, different", "8", "b", []string{"nodes"}, Report{Incomparable: 1}, "have changed since"},
		{"not to be read, different", "away", "b", []string{"nodes"}, Report{Incomparable: 1}, "another outcome"},
		{"another, different", "7", "b", []string{"nodes", "services"}, Report{Incomparable: 1}, "were not read then"},
	} {
		now = test.now
		r := Replay(t.Context(), samples, guest{Host(memory, positionOf), zoned(test.zone, "", test.reads...)}, ReplayOptions{})
		if r.Same != test.want.Same || r.Different != test.want.Different || r.Incomparable != test.want.Incomparable || !strings.Contains(strings.Join(r.Unanswered, ""), test.reason) {
			t.Errorf("%s: %s", test.name, r)
		}
	}
}

// A patch is neither recorded nor made again.
func TestPatchesAreNotMadeAgain(t *testing.T) {
	patch := &abi.KubeRequest{Resource: "nodes", Name: "n", Patch: &abi.KubePatch{Labels: map[string]string{"a": "b"}}}
	made := 0
	run := func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		code, _ := call(abi.CapabilityKube, patch)
		return code, metadata("a"), nil
	}
	count := hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { made++; return abi.CodeOK, nil })
	samples := record(t, count, abi.OpInstanceMetadata, aboutNode("n"), run)
	if r := Replay(t.Context(), samples, guest{Host(count, positionOf), run}, ReplayOptions{}); r.Same != 1 || made != 1 {
		t.Errorf("%s, %d patches", r, made)
	}
}
