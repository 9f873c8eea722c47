package status_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// wantBundles fails unless a new Object has these.
func wantBundles(t *testing.T, client kubernetes.Interface, want ...source.Bundle) {
	t.Helper()
	for _, b := range want {
		got, err := object(client).Bundle(t.Context(), b.Revision)
		if err != nil || !reflect.DeepEqual(*got, b) {
			t.Errorf("the bundle %s is %.300v, %v", b.Revision, got, err)
		}
	}
}

// recordOf has these as saved, the newest first.
func recordOf(generation int64, bundles ...source.Bundle) rollout.Record {
	r := record(bundles[0], generation)
	for _, b := range bundles[1:] {
		r.Saved = append(r.Saved, saved(b))
	}
	return r
}

// Each of three comes back, a fourth takes the place of the oldest, and none is
// written twice.
func TestThreeAreSaved(t *testing.T) {
	client := fake.NewClientset()
	var all []source.Bundle // the newest first
	for i := range 5 {
		all = append([]source.Bundle{bundle(string(rune('0'+i)), noise(uint64(i), 2_000_000))}, all...)
		all = all[:min(len(all), 3)]
		must(t, object(client).Save(t.Context(), recordOf(int64(i), all...), all))
		wantLoad(t, client, recordOf(int64(i), all...), &all[0])
		wantBundles(t, client, all...)
	}
	if _, err := object(client).Bundle(t.Context(), "1"); err == nil {
		t.Error("the oldest is there")
	}
	parts := 0
	for _, action := range client.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetVerb() == "update" && strings.HasPrefix(update.GetObject().(*corev1.ConfigMap).Name, "wasm-ccm-module-") {
			parts++
		}
	}
	if parts != 5*3 {
		t.Errorf("%d parts were written, want 3 for each of 5", parts)
	}
}

// What a manager wrote that saved one is read, and stays.
func TestAnOldRecordIsRead(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", noise(1, 100))
	must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	change(t, client, "wasm-ccm-provider-main", func(cm *corev1.ConfigMap) {
		var r map[string]any
		must(t, json.Unmarshal([]byte(cm.Data["record"]), &r))
		good := r["saved"].([]any)[0].(map[string]any)
		delete(good, "kept")
		r["good"], r["bundle"] = good, r["bundles"].([]any)[0]
		delete(r, "saved")
		delete(r, "bundles")
		text, err := json.Marshal(r)
		must(t, err)
		cm.Data["record"] = string(text)
	})
	wantLoad(t, client, record(b, 1), &b)
	next := bundle("2", noise(2, 100))
	must(t, object(client).Save(t.Context(), recordOf(2, next, b), []source.Bundle{next}))
	wantBundles(t, client, next, b)
}

// An index that is there twice is damage: there is no free set beside it.
func TestABundleIsInOneSet(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", noise(1, 100))
	must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	change(t, client, "wasm-ccm-provider-main", func(cm *corev1.ConfigMap) {
		var r map[string]any
		must(t, json.Unmarshal([]byte(cm.Data["record"]), &r))
		again := map[string]any{}
		for key, value := range r["bundles"].([]any)[0].(map[string]any) {
			again[key] = value
		}
		again["set"] = "b"
		r["bundles"] = append(r["bundles"].([]any), again)
		text, err := json.Marshal(r)
		must(t, err)
		cm.Data["record"] = string(text)
	})
	if _, err := object(client).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Load = %v", err)
	}
}
