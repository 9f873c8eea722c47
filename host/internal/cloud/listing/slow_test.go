package listing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

type listFunc = func(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error)

// slowly makes each page take that long, in the background: the question is
// answered with "ask again" meanwhile, as host/internal/cloud/async does.
func slowly(w *world, took time.Duration) listFunc {
	type question struct {
		listing uint64
		token   string
	}
	since := map[question]time.Time{}
	return func(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
		q := question{listing, token}
		if _, asked := since[q]; !asked {
			since[q] = time.Now()
		}
		if time.Since(since[q]) < took {
			return nil, cloudproviderapi.NewRetryError("in progress", time.Second)
		}
		return w.page(ctx, listing, token, size)
	}
}

// hangs until its time is over.
func hangs(ctx context.Context, _ uint64, _ string, _ uint32) (*abi.ListInstancesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASlowListingIsCollected(t *testing.T) {
	in(t, 400, func(w *world) { // 4 pages, 2 s each: within what a caller waits
		w.list = slowly(w, 1500*time.Millisecond)
		start := time.Now()
		if got := w.refresh(400); got != 400 || time.Since(start) != 8*time.Second {
			t.Errorf("%d got metadata after %v", got, time.Since(start))
		}
		w.cost("a slow refresh", 4, 0)
	})
}

func TestMetadataWhileAListingTakesLong(t *testing.T) {
	in(t, 200, func(w *world) {
		w.refresh(200)
		w.spent()
		w.list = slowly(w, 20*time.Second)
		time.Sleep(5 * time.Minute)
		start := time.Now()
		if got := w.refresh(200); got != 200 || time.Since(start) != pageWait {
			t.Errorf("%d got metadata of five minutes ago after %v", got, time.Since(start))
		}
		w.cost("a refresh", 0, 0)
		time.Sleep(11 * time.Minute) // the slow one is in place, and too old for the next
		w.cost("the listing", 2, 0)
		start = time.Now()
		_, err := w.Listing.InstanceMetadata(w.t.Context(), node(1))
		var retry *cloudproviderapi.RetryError
		if !errors.As(err, &retry) || retry.RetryAfter() != putOffDelay || !strings.Contains(err.Error(), "instance_metadata n001: ") {
			t.Errorf("got %v", err)
		}
		if got := w.refresh(200); got != 0 || time.Since(start) != pageWait || w.heard().putOff != 201 {
			t.Errorf("%d got metadata after %v, %d were put off", got, time.Since(start), w.heard().putOff)
		}
		time.Sleep(41 * time.Second)
		if got := w.refresh(200); got != 200 {
			t.Errorf("%d got metadata in the end", got)
		}
		w.cost("the refresh", 2, 0)
	})
}

func TestNobodyElseWaitsForAListing(t *testing.T) {
	in(t, 100, func(w *world) {
		w.list = hangs
		w.refresh(1)
		start := time.Now()
		for n := range 50 {
			if exists, err := w.Listing.InstanceExists(w.t.Context(), node(n)); !exists || err != nil {
				t.Errorf("exists: %v, %v", exists, err)
			}
			if _, err := w.Listing.InstanceMetadata(w.t.Context(), newNode(n)); err != nil {
				t.Errorf("a new node: %v", err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("they waited %v", took)
		}
		w.cost("all", 0, 100)
	})
}

// A listing that takes seven seconds and more is half as old as existence may
// be when it is there.
func TestASlowListingIsNotUsedForExistence(t *testing.T) {
	in(t, 100, func(w *world) {
		w.list = slowly(w, 10*time.Second)
		w.refresh(1)
		time.Sleep(time.Minute)
		w.spent()
		for range 4 {
			w.monitor(100)
			time.Sleep(5 * time.Second)
		}
		w.cost("a while", 0, 800)
	})
}

func TestCallersDoNotWaitForEver(t *testing.T) {
	in(t, 1000, func(w *world) { // 10 pages, 2 s each
		w.list = slowly(w, 1500*time.Millisecond)
		start := time.Now()
		if got := w.refresh(1000); got != 0 || time.Since(start) != callWait {
			t.Errorf("%d got metadata after %v", got, time.Since(start))
		}
		time.Sleep(11 * time.Second)
		if got := w.refresh(1000); got != 1000 || time.Since(start) != 21*time.Second {
			t.Errorf("%d got metadata after %v", got, time.Since(start))
		}
		w.cost("a slow refresh", 10, 0)
	})
}

func TestAListingThatHangsCostsOneWait(t *testing.T) {
	in(t, 100, func(w *world) {
		w.list = hangs
		start := time.Now()
		for range 12 {
			w.refresh(100)
			time.Sleep(5 * time.Minute)
		}
		if waited := time.Since(start) - time.Hour; waited != pageWait {
			t.Errorf("callers waited %v in an hour", waited)
		}
		w.cost("an hour", 0, 11*100)
		if len(w.heard().failed) != 9 || w.heard().listed != 0 || w.heard().putOff != 100 {
			t.Errorf("observed %+v", w.heard())
		}
	})
}

func TestAListingThatNeverComesIsGivenUp(t *testing.T) {
	in(t, 100, func(w *world) {
		w.list = slowly(w, time.Hour)
		w.refresh(100)
		time.Sleep(flightTime + time.Second)
		if len(w.heard().failed) != 1 || !strings.Contains(w.heard().failed[0].Error(), "page 1: it was given up after 3m0s: in progress") {
			t.Errorf("failed %v", w.heard().failed)
		}
		w.spent()
		w.refresh(100)
		w.cost("a refresh after it", 0, 100)
	})
}

func TestAFailureFallsBack(t *testing.T) {
	broken := errors.New("broken")
	answer := func(page *abi.ListInstancesResponse) listFunc {
		return func(context.Context, uint64, string, uint32) (*abi.ListInstancesResponse, error) { return page, nil }
	}
	for name, test := range map[string]struct {
		list listFunc
		want string
	}{
		"an error": {func(context.Context, uint64, string, uint32) (*abi.ListInstancesResponse, error) { return nil, broken }, "page 1: broken"},
		"a panic":  {func(context.Context, uint64, string, uint32) (*abi.ListInstancesResponse, error) { panic("oh") }, "panic in the manager: oh"},
		"nothing":  {answer(nil), "page 1: the answer is missing"},
		"not done": {answer(&abi.ListInstancesResponse{}), "list_instances: invalid answer of the guest: page 1: it does not say done"},
		"a token that repeats": {answer(&abi.ListInstancesResponse{Done: true, NextPageToken: "x"}),
			"list_instances: invalid answer of the guest: page 2: next_page_token repeats an earlier one"},
		"no metadata": {answer(&abi.ListInstancesResponse{Done: true, Instances: []*abi.Instance{{}}}), "instances[0]: it has no metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 200, func(w *world) {
				good := w.list
				w.list = test.list
				if got := w.refresh(200); got != 200 {
					t.Errorf("%d got metadata", got)
				}
				w.cost("a refresh", 0, 200)
				if len(w.heard().failed) != 1 || !strings.Contains(w.heard().failed[0].Error(), test.want) || w.heard().delays[0] != minBackOff {
					t.Errorf("failed %v, %v, want %s", w.heard().failed, w.heard().delays, test.want)
				}
				w.list = good
				time.Sleep(5 * time.Minute)
				w.refresh(200)
				time.Sleep(5 * time.Minute)
				w.spent()
				w.refresh(200)
				w.cost("a refresh when it is mended", 2, 0)
			})
		})
	}
}

func TestTheBackOffGrows(t *testing.T) {
	in(t, 10, func(w *world) {
		good := w.list
		w.list = func(context.Context, uint64, string, uint32) (*abi.ListInstancesResponse, error) {
			return nil, errors.New("broken")
		}
		for range 3600 {
			w.refresh(1)
			time.Sleep(time.Second)
		}
		if n := len(w.heard().failed); n != 16 || w.heard().delays[1] != 2*minBackOff || w.heard().delays[n-1] != maxBackOff {
			t.Errorf("%d failures in an hour: %v", n, w.heard().delays)
		}
		w.cost("an hour", 0, 3600)
		w.Reset() // another generation is not answerable for it
		w.list = good
		w.refresh(10)
		w.cost("a refresh", 1, 0)
	})
}

// While a listing is tried again after a failure nobody depends on it.
func TestATrialHoldsNobodyUp(t *testing.T) {
	in(t, 100, func(w *world) {
		w.list = func(context.Context, uint64, string, uint32) (*abi.ListInstancesResponse, error) {
			return nil, errors.New("broken")
		}
		w.refresh(1)
		w.list = slowly(w, time.Second)
		time.Sleep(minBackOff)
		w.spent()
		start := time.Now()
		if got := w.refresh(100); got != 100 || time.Since(start) != 0 {
			t.Errorf("%d got metadata after %v", got, time.Since(start))
		}
		w.cost("a refresh beside the trial", 0, 100)
		time.Sleep(2 * time.Second)
		w.refresh(100)
		w.cost("a refresh after it", 1, 0)
	})
}

func TestDemandIsBounded(t *testing.T) {
	d := demand{}
	now := time.Now()
	for n := range 1000 {
		if many := d.add(server(n).NodeName, few, now); many != (n >= few) {
			t.Fatalf("%d nodes are many: %v", n+1, many)
		}
	}
	if len(d) != few+1 {
		t.Errorf("%d names are kept", len(d))
	}
	if d.add("later", few, now.Add(window+time.Second)) || len(d) != 1 {
		t.Errorf("%d names are kept a window later", len(d))
	}
}
