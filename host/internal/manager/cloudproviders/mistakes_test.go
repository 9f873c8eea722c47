package cloudproviders

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// The only valid provider does not get all objects while another one has a
// mistake: the other's Nodes and Services would become its own.
func TestAMistakeAtTheStartGivesNobodyEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mistaken := made(t, "one", 1, 2, "{store: one, source: {directory: relative}}")
		mistaken.Object["status"] = map[string]any{"serving": map[string]any{"version": "1.0"}}
		w := newWorld(t, newClient(t, mistaken, made(t, "never", 2, 1, spec("file", "/never")))).lead()
		schemes := func(in string) (nodes, volumes []string) {
			if got := w.settled(); got != in {
				t.Errorf("in force: %s, want %s", got, in)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.last.Providers[0].Routing.Nodes.Schemes, w.last.Providers[0].Routing.Volumes.Schemes
		}
		if nodes, volumes := schemes("file/file"); !slices.Equal(nodes, []string{"file"}) || !slices.Equal(volumes, []string{"file"}) {
			t.Errorf("the lone one has the Nodes %q and the volumes %q", nodes, volumes)
		}
		if w.File().Providers[0].Routing.Nodes.Schemes != nil {
			t.Error("the file has changed")
		}
		// Nor does it after the next restart: the earlier serving provider is not forgotten.
		w.stop()
		w.wantConditions("one", "Ready=False Progressing=False Degraded=True Stalled=True")
		if s := w.status("one"); s.Serving == nil || s.Serving.Version != "1.0" {
			t.Errorf("%+v", s)
		}
		w = newWorld(t, w.client).lead()
		if nodes, volumes := schemes("file/file"); !slices.Equal(nodes, []string{"file"}) || !slices.Equal(volumes, []string{"file"}) {
			t.Errorf("after another restart the lone one has the Nodes %q and the volumes %q", nodes, volumes)
		}
		w.put(made(t, "one", 1, 3, spec("one", "/1")))
		if nodes, _ := schemes("file/file one/1"); nodes != nil {
			t.Errorf("the first of two has the Nodes %q", nodes)
		}
		w.put(made(t, "one", 1, 4, "{store: one, source: {directory: relative}}"))
		if _, volumes := schemes("file/file one/1"); volumes != nil {
			t.Errorf("the first of two has the volumes %q", volumes)
		}
		if err := w.client.Tracker().Delete(v1alpha1.CloudProviderResource(), "", "one"); err != nil {
			t.Fatal(err)
		}
		if nodes, _ := schemes("file/file"); nodes != nil {
			t.Errorf("one that nobody takes anything from has the Nodes %q", nodes)
		}
	})
}

// It does, once the provider with the mistake is deleted.
func TestWhoseMistakeIsDeletedLeavesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mistaken := made(t, "one", 1, 2, "{store: one, source: {directory: relative}}")
		mistaken.Object["status"] = map[string]any{"serving": map[string]any{"version": "1.0"}}
		w := newWorld(t, newClient(t, mistaken)).lead()
		w.settled()
		if err := w.client.Tracker().Delete(v1alpha1.CloudProviderResource(), "", "one"); err != nil {
			t.Fatal(err)
		}
		if got := w.settled(); got != "file/file" || w.last.Providers[0].Routing.Nodes.Schemes != nil {
			t.Errorf("in force: %s, %q", got, w.last.Providers[0].Routing.Nodes.Schemes)
		}
	})
}

// A manager that serves an object's earlier form does not notice a mistake in it. A
// manager that starts with the mistake must not become ready in its place.
func TestAManagerThatLacksAProviderSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, made(t, "one", 1, 1, spec("one", "/1")), made(t, "never", 2, 1, spec("one", "/never")))
		old := newWorld(t, client).lead()
		old.settled()
		old.Report("one", kept("1.0"))
		old.settled()
		mistaken := made(t, "one", 1, 2, "{store: one, source: {directory: relative}}")
		mistaken.Object["status"] = map[string]any{"serving": map[string]any{"version": "1.0"}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		old.put(mistaken)
		old.settled()
		next := newWorld(t, client)
		next.settled()
		if old.Lacks() != "" || next.Lacks() != "one" {
			t.Errorf("the old one lacks %q, the next one %q", old.Lacks(), next.Lacks())
		}
		old.stop()
		next.lead().settled() // no manager serves it now
		if next.Lacks() != "" {
			t.Errorf("the leader lacks %q", next.Lacks())
		}
	})
}
