package shadow

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// script records the host calls with these answers and returns their player.
func script(calls ...call) *player {
	return newPlayer(&Sample{calls: calls}, newStopwatch(time.Hour, func() {}))
}

// away is the real host when nothing can be reached.
var away = hostFunc(func(_ context.Context, name string, request []byte) (abi.Code, []byte) {
	var m abi.HttpSendRequest
	switch {
	case name == abi.CapabilityCache:
		return encode(&abi.CacheResponse{})
	case name != abi.CapabilityHTTP || m.UnmarshalVT(request) != nil:
		return abi.CodeUnavailable, nil
	}
	response := &abi.HttpSendResponse{}
	for range m.Requests {
		response.Results = append(response.Results, &abi.HttpResult{Code: uint32(abi.CodeUnavailable)})
	}
	return encode(response)
})

func played(p *player, name string, request []byte) (abi.Code, []byte) {
	return p.hostCall(context.Background(), away, name, request)
}

func recorded(name string, request, result abi.Message) call {
	return call{name: name, request: string(encoded(request)), result: string(encoded(result))}
}

func cached(t *testing.T, p *player, key string) string {
	t.Helper()
	code, result := played(p, abi.CapabilityCache, encoded(&abi.CacheRequest{Key: key}))
	if code != abi.CodeOK {
		t.Fatalf("cache: %s", code)
	}
	m := decoded(t, result, &abi.CacheResponse{})
	if !m.Found {
		return "none"
	}
	return string(m.Value)
}

func put(t *testing.T, p *player, key, value string) {
	t.Helper()
	code, result := played(p, abi.CapabilityCache, encoded(&abi.CacheRequest{Key: key, Put: &abi.CacheValue{Value: []byte(value), TtlMs: 1}}))
	if code != abi.CodeOK || len(result) != 0 {
		t.Fatalf("cache: %s", code)
	}
}

func TestCacheOfAReplayedOp(t *testing.T) {
	p := script(recorded(abi.CapabilityCache, &abi.CacheRequest{Key: "a"}, &abi.CacheResponse{Found: true, Value: []byte("recorded")}))
	if got := cached(t, p, "a"); got != "recorded" {
		t.Errorf("a is %s", got)
	}
	if got := cached(t, p, "b"); got != "none" {
		t.Errorf("b is %s", got)
	}
	put(t, p, "a", "its own")
	if got := cached(t, p, "a"); got != "its own" {
		t.Errorf("a is %s after a put", got)
	}
	if p.left {
		t.Error("it has left the record")
	}
}

func TestScratchIsBounded(t *testing.T) {
	p := script()
	big := strings.Repeat("v", maxScratchBytes/4)
	for _, key := range []string{"a", "b", "c", "d", "e", "a"} {
		put(t, p, key, big)
	}
	total := 0
	for key, value := range p.scratch {
		total += callOverhead + len(key) + len(value)
	}
	if total != p.scratchBytes || total > maxScratchBytes {
		t.Errorf("%d bytes, %d counted, the limit is %d", total, p.scratchBytes, maxScratchBytes)
	}
	put(t, p, "a", "small")
	if got := cached(t, p, "a"); got != "small" {
		t.Errorf("a is %s", got)
	}
	put(t, p, "a", strings.Repeat("v", maxScratchBytes))
	if got := cached(t, p, "a"); got != "none" {
		t.Error("a value that was put over is there again")
	}
}

func TestReadsOfTheStoreComeInTheirOrder(t *testing.T) {
	read := &abi.StoreRequest{Prefix: "lb."}
	p := script(
		recorded(abi.CapabilityStore, read, &abi.StoreResponse{Version: "1"}),
		recorded(abi.CapabilityStore, &abi.StoreRequest{Prefix: "other"}, &abi.StoreResponse{Version: "9"}),
		recorded(abi.CapabilityStore, read, &abi.StoreResponse{Version: "2"}))
	var got []string
	for range 3 {
		_, result := played(p, abi.CapabilityStore, encoded(read))
		got = append(got, decoded(t, result, &abi.StoreResponse{}).Version)
	}
	if want := []string{"1", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("versions %v, want %v", got, want)
	}
	if code, _ := played(p, abi.CapabilityStore, encoded(&abi.StoreRequest{Prefix: "new"})); code != abi.CodeUnavailable {
		t.Errorf("a read that was not recorded: %s", code)
	}
}

func TestARecordedWriteIsNotAnsweredFromTheRecord(t *testing.T) {
	write := &abi.StoreRequest{Write: &abi.StoreWrite{Version: "1"}}
	p := script(recorded(abi.CapabilityStore, write, &abi.StoreResponse{Version: "2"}))
	if code, _ := played(p, abi.CapabilityStore, encoded(write)); code != abi.CodeUnavailable || !p.left {
		t.Errorf("a write: %s", code)
	}
}

func TestLargeWritesAreNotRecorded(t *testing.T) {
	r := NewRecorder(Options{})
	ctx, end := r.Begin(t.Context(), abi.OpRouteList, nil)
	host := Host(hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, nil }))
	large := make([]byte, 1<<20)
	host.HostCall(ctx, abi.CapabilityCache, encoded(&abi.CacheRequest{Key: "k", Put: &abi.CacheValue{Value: large}}))
	host.HostCall(ctx, abi.CapabilityStore, encoded(&abi.StoreRequest{Write: &abi.StoreWrite{Put: []*abi.StoreEntry{{Value: large}}}}))
	host.HostCall(ctx, abi.CapabilityKube, encoded(&abi.KubeRequest{Patch: &abi.KubePatch{Annotations: map[string]string{"k": string(large)}}}))
	host.HostCall(ctx, abi.ImportLog, large)
	end(abi.CodeOK, []byte{16, 1}, nil)
	if s := r.Samples(); len(s) != 1 || len(s[0].calls) != 0 {
		t.Error("a write made the sample too large, or is in it")
	}
}

func TestNodesAndFailedCallsAreRepeated(t *testing.T) {
	request := &abi.NodesRequest{SnapshotId: 1}
	c := recorded(abi.CapabilityNodes, request, &abi.ErrorDetail{Message: "no snapshot"})
	c.code = abi.CodeNotFound
	code, result := played(script(c), abi.CapabilityNodes, encoded(request))
	if code != abi.CodeNotFound || decoded(t, result, &abi.ErrorDetail{}).Message != "no snapshot" {
		t.Errorf("%s %q", code, result)
	}
}

// sent sends one request and returns the body of its response or its code.
func sent(t *testing.T, p *player, r *abi.HttpRequest) string {
	t.Helper()
	code, result := played(p, abi.CapabilityHTTP, encoded(&abi.HttpSendRequest{Requests: []*abi.HttpRequest{r}}))
	if code != abi.CodeOK {
		return "call " + code.String()
	}
	m := decoded(t, result, &abi.HttpSendResponse{}).Results[0]
	if m.Code != 0 {
		return abi.Code(m.Code).String()
	}
	return string(m.Response.Body)
}

func httpCall(body string, requests ...*abi.HttpRequest) call {
	return call{name: abi.CapabilityHTTP, request: string(encoded(&abi.HttpSendRequest{Requests: requests})), result: string(bodies(strings.Fields(body)...))}
}

func TestWhichExchangeFits(t *testing.T) {
	plain := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x"}
	ranged := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x", Headers: []*abi.HttpHeader{{Name: "Range", Value: "0-9"}}}
	other := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x", Credential: "other"}
	post := &abi.HttpRequest{Method: "POST", Url: "https://cloud/x", Body: []byte("q")}
	p := script(httpCall("plain ranged", plain, ranged), httpCall("other", other), httpCall("post", post), httpCall("again", plain))
	newer := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x", Credential: "other", TimeoutMs: 5}
	for i, step := range []struct {
		request *abi.HttpRequest
		want    string
	}{
		{ranged, "ranged"}, {plain, "plain"}, {plain, "again"}, {plain, "again"}, {newer, "other"},
		{post, "post"}, {post, "unavailable"},
		{&abi.HttpRequest{Method: "POST", Url: "https://cloud/x", Body: []byte("r")}, "unavailable"},
		{&abi.HttpRequest{Method: "DELETE", Url: "https://cloud/x"}, "unavailable"},
		{&abi.HttpRequest{Method: "GET", Url: "https://cloud/x?page=2"}, "unavailable"},
	} {
		if got := sent(t, p, step.request); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

func TestTheSameCredentialFitsBetter(t *testing.T) {
	request := func(credential string, timeout int64) *abi.HttpRequest {
		return &abi.HttpRequest{Method: "GET", Url: "https://cloud/x", Credential: credential, TimeoutMs: timeout}
	}
	p := script(httpCall("a", request("a", 0)), httpCall("b", request("b", 0)))
	for i, want := range []string{"b", "b", "a"} {
		if got := sent(t, p, request(want, 1)); got != want {
			t.Errorf("step %d: %s, want %s", i, got, want)
		}
	}
}

func TestABatchIsAnsweredInPart(t *testing.T) {
	known, unknown := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x"}, &abi.HttpRequest{Method: "GET", Url: "https://cloud/y"}
	p := script(httpCall("known", known))
	_, result := played(p, abi.CapabilityHTTP, encoded(&abi.HttpSendRequest{Requests: []*abi.HttpRequest{unknown, known}}))
	m := decoded(t, result, &abi.HttpSendResponse{}).Results
	if len(m) != 2 || abi.Code(m[0].Code) != abi.CodeUnavailable || m[1].Response == nil || string(m[1].Response.Body) != "known" {
		t.Errorf("results %v", m)
	}
	if !p.left {
		t.Error("it has not left the record")
	}
}

func TestABatchThatTheHostRefused(t *testing.T) {
	request := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x"}
	c := httpCall("", request)
	c.code, c.result = abi.CodeDenied, string(encoded(&abi.ErrorDetail{Message: "no network"}))
	p := script(c)
	if got := sent(t, p, request); got != "call denied" || p.left {
		t.Errorf("%s, left the record: %v", got, p.left)
	}
}

func TestAnAnswerOverTheLimitOfHostCalls(t *testing.T) {
	request := &abi.HttpRequest{Method: "GET", Url: "https://cloud/x"}
	c := httpCall("", request)
	c.result = string(bodies(strings.Repeat("x", 400<<10)))
	batch := &abi.HttpSendRequest{}
	for range abi.MaxHTTPBatch {
		batch.Requests = append(batch.Requests, request)
	}
	if code, result := played(script(c), abi.CapabilityHTTP, encoded(batch)); code != abi.CodeTooLarge || result != nil {
		t.Errorf("%s with %d bytes", code, len(result))
	}
}

// FuzzPlayer gives a player any record and any host call: it never panics.
func FuzzPlayer(f *testing.F) {
	request := encoded(get("https://cloud/x"))
	f.Add(abi.CapabilityHTTP, request, bodies("x"), request)
	f.Add(abi.CapabilityHTTP, request, bodies("x", "y"), request)
	f.Add(abi.CapabilityCache, encoded(&abi.CacheRequest{Key: "k"}), []byte{8, 1}, encoded(&abi.CacheRequest{Key: "k"}))
	f.Add(abi.CapabilityStore, encoded(&abi.StoreRequest{}), []byte{10, 1, 'v'}, encoded(&abi.StoreRequest{Write: &abi.StoreWrite{}}))
	f.Add(abi.CapabilityHTTP, []byte{10, 0}, []byte{10, 0}, []byte{10, 0})
	f.Add(abi.CapabilityCache, []byte{}, []byte{}, []byte{18, 0})
	f.Fuzz(func(t *testing.T, name string, request, result, asked []byte) {
		p := script(call{name: name, request: string(request), result: string(result)})
		for range 2 {
			played(p, name, asked)
		}
	})
}
