package manager

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Whom a Node's route is asked of may change while objects are counted: a route of a
// provider that makes none is not counted, and the status is answered.
func TestARouteOfAProviderWithoutRoutesIsNotCounted(t *testing.T) {
	all := []view{{status: v1alpha1.Provider{Name: "a", Nodes: &v1alpha1.Objects{}, Services: &v1alpha1.Objects{}}}}
	count(all, v1alpha1.Explanation{Object: v1alpha1.Object{Kind: v1alpha1.KindRoute, Name: "n"}, Provider: "a", State: v1alpha1.StateStuck})
	if p := all[0].status; p.Routes != nil || p.StuckObjects() != 0 || len(p.Stuck) != 0 {
		t.Errorf("%+v", p)
	}
}
