package trials

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// late makes the book of a provider that comes while the process runs.
func (p *process) late(t *testing.T, client *fake.Clientset, provider string) *Book {
	return p.Book(t.Context(), provider, status.New(client, "ns", provider, clock.RealClock{}))
}

// A provider that comes later brings what it did to the process before: its module
// ended the manager, and is suspected.
func TestAProviderThatComesLaterIsHeldAgainstItsBook(t *testing.T) {
	client := fake.NewClientset()
	begin(t, newProcess(t, client, "host:1", "one", "two").books[1], "new", rollout.Offered) // killed
	p := newProcess(t, client, "host:1", "one")                                              // two is not configured
	begin(t, p.books[0], "other", rollout.Offered)
	_ = refusedAs[*rollout.Suspected](t, p.late(t, client, "two"), "new", rollout.Offered)
}

// A provider that goes while it tries a module, and comes back, is not blamed.
func TestAProviderThatGoesAndComesBackIsNotBlamed(t *testing.T) {
	client := fake.NewClientset()
	p := newProcess(t, client, "host:1", "one")
	two := p.late(t, client, "two")
	begin(t, two, "new", rollout.Offered)
	if err := two.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	two = p.late(t, client, "two")
	begin(t, two, "new", rollout.Offered)
	// Also when nobody could strike out the mark.
	begin(t, p.late(t, client, "two"), "new", rollout.Offered)
	if err := p.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin(t, newProcess(t, client, "host:1", "one", "two").books[1], "new", rollout.Offered)
}
