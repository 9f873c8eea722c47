package listing

import (
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// Nodes as people have them are found in a listing: by their provider ID, or by
// their name while they have none.
func TestNodesAsPeopleHaveThemAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(0)
		for _, n := range objects.Nodes(t) {
			id := n.Spec.ProviderID
			if id == "" {
				id = "static://" + n.Name
			}
			c.servers = append(c.servers, &abi.Instance{
				NodeName: n.Name, State: abi.PowerState_POWER_STATE_ON,
				Metadata: &abi.InstanceMetadata{ProviderId: id, Zone: "z", Addresses: convert.Node(n).Addresses},
			})
		}
		l := New(c, Options{})
		for range 3 {
			for name, n := range objects.Nodes(t) {
				if exists, err := l.InstanceExists(t.Context(), n); err != nil || !exists {
					t.Errorf("%s: %v, %v", name, exists, err)
				}
				m, err := l.InstanceMetadata(t.Context(), n)
				if direct := m != nil && m.Region == "direct"; !direct && (err != nil || m.Zone != "z" || len(m.NodeAddresses) != len(n.Status.Addresses)) {
					t.Errorf("%s: %+v, %v", name, m, err)
				}
			}
		}
		if few := len(objects.Nodes(t)); c.direct[abi.OpInstanceExists] > few || c.direct[abi.OpInstanceMetadata] > 2*few || c.pages == 0 {
			t.Errorf("%d pages, asked directly: %v", c.pages, c.direct)
		}
		l.Close()
	})
}
