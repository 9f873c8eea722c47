package status_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Several managers change the trials at a time, the first of them when there is
// no object yet, and none overwrites another's. Status and record stay as they are.
func testTrials(t *testing.T, config *rest.Config, provider string) {
	const managers, changes = 3, 15
	leader := start(t, config, provider)
	var wg sync.WaitGroup
	for range managers {
		wg.Go(func() {
			o := open(config, provider)
			for i := range changes {
				leader.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Serving", Message: fmt.Sprint(i)}})
				for done := false; !done; {
					err := o.ChangeTrials(t.Context(), func(text string) (string, error) {
						n, _ := strconv.Atoi(text) // "" is none
						return strconv.Itoa(n + 1), nil
					})
					done = err == nil // else the others were quicker ten times
				}
			}
		})
	}
	must(t, leader.ChangeBrake(t.Context(), func(text string) (string, error) { return text + "x", nil }))
	b := bundle("1", []byte("m"))
	must(t, leader.Save(t.Context(), record(b, 1), []source.Bundle{b}))
	wg.Wait()
	text, err := leader.Trials(t.Context())
	must(t, err)
	if text != fmt.Sprint(managers*changes) {
		t.Errorf("the trials are %q, want %d changes", text, managers*changes)
	}
	if r, kept := mustLoad(t, config, provider); kept == nil || r.Generation != 1 {
		t.Errorf("record %+v", r)
	}
	must(t, leader.ChangeBrake(t.Context(), func(text string) (string, error) {
		if text != "x" {
			t.Errorf("the record of the deletion brake is %q", text)
		}
		return text, nil
	}))
	refusal := errors.New("no")
	err = leader.ChangeTrials(t.Context(), func(string) (string, error) { return "refused", refusal })
	if text, _ := leader.Trials(t.Context()); !errors.Is(err, refusal) || text != "refused" {
		t.Errorf("%q, %v", text, err)
	}
}

// conflicts counts the writes that met somebody else's.
type conflicts struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c conflicts) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusConflict {
		c.n.Add(1)
	}
	return response, err
}

// The trials, the brake, the record and the status of one manager are never in each
// other's way.
func testOwnWrites(t *testing.T, config *rest.Config, provider string) {
	var met atomic.Int64
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return conflicts{rt, &met} })
	o := start(t, config, provider)
	b := bundle("1", []byte("m"))
	must(t, o.Save(t.Context(), record(b, 0), []source.Bundle{b}))
	more := func(text string) (string, error) { return text + "x", nil }
	var wg sync.WaitGroup
	for i := range 20 {
		o.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Serving", Message: fmt.Sprint(i)}})
		for _, write := range []func() error{
			func() error { return o.ChangeTrials(t.Context(), more) },
			func() error { return o.ChangeBrake(t.Context(), more) },
			func() error { return o.Save(t.Context(), record(b, int64(i)), nil) },
		} {
			wg.Go(func() {
				if err := write(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := met.Load(); n > 0 {
		t.Errorf("%d conflicts", n)
	}
}
