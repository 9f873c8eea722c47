package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

func TestWhatACandidatePrintsWhileItIsComparedIsDropped(t *testing.T) {
	l := stubProviderLoader(t)
	g, err := l.Prepare(t.Context(), source.Bundle{Module: guest(t, `[]`)}, func(rollout.Phase) {})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := l.loaded[g].printer(&out)
	print := func(text string) {
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	print("loud ")
	loud := l.hush(g)
	print("hushed ")
	loud()
	print("loud again")
	if got := out.String(); got != "loud loud again" {
		t.Errorf("%q", got)
	}
}

// After a restart nothing was recorded yet: a comparison that is required waits
// for it, one that is not does not.
func TestARequiredComparisonWaitsForSomethingToCompare(t *testing.T) {
	recorded := func(r *shadow.Recorder) {
		data, err := requests.Instance("n").MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		_, end := r.Begin(t.Context(), abi.OpInstanceExists, data)
		end(abi.CodeOK, answer, nil)
	}
	for name, test := range map[string]struct {
		after   time.Duration // 0: never
		least   time.Duration
		most    time.Duration
		samples int
	}{
		"soon":  {5 * time.Second, 6 * time.Second, 8 * time.Second, 1},
		"never": {0, firstSample, firstSample, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &comparer{recorder: shadow.NewRecorder(shadow.Options{})}
				if test.after > 0 {
					time.AfterFunc(test.after, func() { recorded(c.recorder) })
				}
				begin := time.Now()
				c.await(t.Context())
				if took := time.Since(begin); took < test.least || took > test.most {
					t.Errorf("it waited %v", took)
				}
				if n := len(c.recorder.Samples()); n != test.samples {
					t.Errorf("%d samples", n)
				}
			})
		})
	}
}
