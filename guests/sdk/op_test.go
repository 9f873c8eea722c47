package sdk_test

import (
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

func TestHTTP(t *testing.T) {
	h := sdktest.New(t)
	if _, err := h.Op().HTTP().Do(&abi.HttpRequest{}); sdk.CodeOf(err) != abi.CodeDenied {
		t.Errorf("without a grant: %v, want denied", err)
	}
	var seen []string
	h.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		seen = append(seen, req.Url)
		if req.Url == "7" {
			return nil, sdk.Error(abi.CodeUnavailable, "nobody is there")
		}
		return &abi.HttpResponse{Status: 404, Body: []byte(req.Url)}, nil
	}
	// More than one batch of requests.
	var reqs []*abi.HttpRequest
	for i := range 2*abi.MaxHTTPBatch + 3 {
		reqs = append(reqs, &abi.HttpRequest{Url: strconv.Itoa(i)})
	}
	results, err := h.Op().HTTP().DoAll(reqs...)
	if err != nil || len(results) != len(reqs) || len(seen) != len(reqs) {
		t.Fatalf("%d results of %d requests: %v", len(results), len(seen), err)
	}
	for i, result := range results {
		if i == 7 {
			if sdk.CodeOf(result.Err) != abi.CodeUnavailable || result.Response != nil {
				t.Errorf("request 7: %v, want unavailable", result)
			}
		} else if result.Err != nil || result.Response.Status != 404 || string(result.Response.Body) != strconv.Itoa(i) {
			t.Errorf("request %d: %v", i, result)
		}
	}
}

func TestCache(t *testing.T) {
	h := sdktest.New(t)
	cache := h.Op().Cache()
	if _, found, err := cache.Get("k"); found || err != nil {
		t.Fatalf("empty: %v, %v", found, err)
	}
	if err := cache.Put("k", []byte("v"), time.Second); err != nil {
		t.Fatal(err)
	}
	if value, found, err := cache.Get("k"); string(value) != "v" || !found || err != nil {
		t.Errorf("%q, %v, %v", value, found, err)
	}
	h.Clock = h.Clock.Add(time.Second)
	if _, found, _ := cache.Get("k"); found {
		t.Error("a value outlives its time")
	}
}

func TestStore(t *testing.T) {
	h := sdktest.New(t)
	store := h.Op().Store()
	_, version, err := store.Read("")
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string) sdk.Change {
		return sdk.Change{Put: []*abi.StoreEntry{{Key: key, Value: []byte(value)}}}
	}
	if _, err := store.Write(version, put("a.1", "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Write(version, put("a.2", "y")); sdk.CodeOf(err) != abi.CodeConflict {
		t.Errorf("a stale write: %v, want a conflict", err)
	}
	if diff := cmp.Diff(map[string]string{"a.1": "x"}, h.Store.Entries()); diff != "" {
		t.Error(diff)
	}
	entries, _, err := store.Read("b.")
	if err != nil || len(entries) != 0 {
		t.Errorf("entries of another prefix: %v, %v", entries, err)
	}
}

func TestStoreUpdate(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]struct {
		conflicts int // before a write succeeds
		decide    func(entries []*abi.StoreEntry) (sdk.Change, error)
		err       func(error) bool
		writes    int // of the provider
	}{
		"at once":       {0, appendOne, func(err error) bool { return err == nil }, 1},
		"third try":     {2, appendOne, func(err error) bool { return err == nil }, 1},
		"never":         {1000, appendOne, func(err error) bool { return sdk.CodeOf(err) == abi.CodeConflict }, 0},
		"nothing to do": {0, func([]*abi.StoreEntry) (sdk.Change, error) { return sdk.Change{}, nil }, func(err error) bool { return err == nil }, 0},
		"error":         {0, func([]*abi.StoreEntry) (sdk.Change, error) { return sdk.Change{}, boom }, func(err error) bool { return errors.Is(err, boom) }, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := sdktest.New(t)
			left, others := test.conflicts, 0
			h.Store.BeforeWrite = func() {
				if left > 0 {
					left--
					others++
					h.Store.Put("other", strconv.Itoa(left))
				}
			}
			err := h.Op().Store().Update("", test.decide)
			if !test.err(err) || h.Store.Writes() != test.writes+others {
				t.Errorf("%v, %d writes of ours", err, h.Store.Writes()-others)
			}
			if others > 50 {
				t.Errorf("it tried %d times", others)
			}
		})
	}
}

func appendOne(entries []*abi.StoreEntry) (sdk.Change, error) {
	return sdk.Change{Put: []*abi.StoreEntry{{Key: "n" + strconv.Itoa(len(entries))}}}, nil
}

func TestNodes(t *testing.T) {
	h := sdktest.New(t)
	var nodes []*abi.Node
	for i := range 5 {
		nodes = append(nodes, &abi.Node{Name: "n" + strconv.Itoa(i), ProviderId: "id", Labels: map[string]string{"a": "b"}})
	}
	snapshot := h.Nodes(nodes...)
	var names []string
	for node, err := range h.Op().Nodes(snapshot, sdk.NodeName) {
		if err != nil {
			t.Fatal(err)
		}
		if node.ProviderId != "" || node.Labels != nil {
			t.Errorf("%s has fields that were not asked for", node.Name)
		}
		names = append(names, node.Name)
	}
	if diff := cmp.Diff([]string{"n0", "n1", "n2", "n3", "n4"}, names); diff != "" {
		t.Error(diff)
	}
	seen := 0
	for _, err := range h.Op().Nodes(snapshot) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Errorf("break after %d nodes, want 3", seen)
	}
	for name, snapshot := range map[string]*abi.NodeSnapshot{"nil": nil, "none": {}, "unknown": {Id: 9}} {
		count := 0
		for node, err := range h.Op().Nodes(snapshot) {
			count++
			if sdk.CodeOf(err) != abi.CodeNotFound || node != nil {
				t.Errorf("%s: %v, %v, want not_found", name, node, err)
			}
		}
		if count != 1 {
			t.Errorf("%s: %d answers, want one error", name, count)
		}
	}
	h.Nodes()
	for node, err := range h.Op().Nodes(&abi.NodeSnapshot{Id: 1}) {
		t.Errorf("%v, %v of no nodes", node, err)
	}
}

func TestEventAndTime(t *testing.T) {
	h := sdktest.New(t)
	if err := h.Op().Event(true, "Reason", "message"); err != nil {
		t.Fatal(err)
	}
	want := &abi.EventRequest{Warning: true, Reason: "Reason", Message: "message"}
	if events := h.Events(); len(events) != 1 || !reflect.DeepEqual(want, events[0]) {
		t.Errorf("events: %v", events)
	}
	h.Time = time.Minute
	if !h.Op().Now().Equal(h.Clock) || h.Op().Left() != time.Minute {
		t.Error("the clock is not the host's")
	}
	h.Op().Warn("odd", "key")
	if diff := cmp.Diff([]string{"WARNING odd key="}, h.Logs()); diff != "" {
		t.Error(diff)
	}
}
