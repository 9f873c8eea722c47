package cloudproviders

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// An object's important changes are Events on it, once, by the leader.
func TestWhatGoesWrongIsAnEventOnTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, made(t, "one", 1, 1, spec("one", "/1")), made(t, "bad", 2, 1, spec("one", "/bad")))
		w := newWorld(t, client)
		w.settled()
		if said := w.said(); len(said) > 0 {
			t.Errorf("a standby said %q", said)
		}
		w.lead().settled()
		broken := kept("1.0")
		broken.Phase, broken.Reason, broken.Message = "Rejected", "ConfigNotFound", "waiting for ConfigMap kube-system/c"
		for _, report := range []status.Provider{kept("1.0"), broken, broken, kept("1.1")} {
			w.Report("one", report)
			w.settled()
		}
		const on = " involvedObject{kind=CloudProvider,apiVersion=config.wasm-ccm.dev/v1alpha1}"
		want := []string{
			`Warning ProviderRejected Invalid: spec.store: Duplicate value: "one": it is that of providers[one].store` + on,
			"Normal ProviderKept module m 1.0 serves" + on,
			"Warning ProviderRejected ConfigNotFound: waiting for ConfigMap kube-system/c" + on,
			"Normal ProviderKept module m 1.1 serves" + on,
		}
		if diff := cmp.Diff(want, w.said()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}

// said are the Events since the last call.
func (w *world) said() (all []string) {
	for {
		select {
		case one := <-w.events.Events:
			all = append(all, one)
		default:
			return all
		}
	}
}
