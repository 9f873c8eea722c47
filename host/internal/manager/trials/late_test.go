package trials

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// late makes the book of a provider that is added while the process runs.
func (p *process) late(t *testing.T, client *fake.Clientset, provider string) *Book {
	return p.Book(t.Context(), provider, status.New(client, "ns", provider, clock.RealClock{}))
}

// The book of a provider that is added later still counts: its module ended the
// previous process, and is suspected.
func TestAProviderThatComesLaterIsHeldAgainstItsBook(t *testing.T) {
	client := fake.NewClientset()
	begin(t, newProcess(t, client, "host:1", "one", "two").books[1], "new", trial.Offered) // killed
	p := newProcess(t, client, "host:1", "one")                                            // two is not configured
	begin(t, p.books[0], "other", trial.Offered)
	_ = refusedAs[*trial.Suspect](t, p.late(t, client, "two"), "new", trial.Offered)
}

// A provider that is removed during a trial, and added again, is not blamed.
func TestAProviderThatGoesAndComesBackIsNotBlamed(t *testing.T) {
	client := fake.NewClientset()
	p := newProcess(t, client, "host:1", "one")
	two := p.late(t, client, "two")
	begin(t, two, "new", trial.Offered)
	if err := two.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	two = p.late(t, client, "two")
	begin(t, two, "new", trial.Offered)
	// Even if the mark could not be struck out.
	begin(t, p.late(t, client, "two"), "new", trial.Offered)
	if err := p.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin(t, newProcess(t, client, "host:1", "one", "two").books[1], "new", trial.Offered)
}
