package shadow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// zoneOf is a guest that asks the cloud for the zone.
func zoneOf(requests ...*abi.HttpSendRequest) func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error) {
	return func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		zone := ""
		for _, r := range requests {
			code, result := call(abi.CapabilityHTTP, r)
			response := &abi.HttpSendResponse{}
			if code != abi.CodeOK || response.UnmarshalVT(result) != nil {
				return code, nil, nil
			}
			for _, r := range response.GetResults() {
				if r.GetCode() != 0 {
					return abi.Code(r.GetCode()), nil, nil
				}
				zone += string(r.GetResponse().GetBody())
			}
		}
		return abi.CodeOK, metadata(zone), nil
	}
}

func TestReplayIsTheSame(t *testing.T) {
	var calls []string
	real := cloud(t, map[string]string{"https://cloud/a": "A", "https://cloud/b": "B"}, &calls)
	samples := record(t, real, abi.OpInstanceMetadata, aboutNode("node-1"), zoneOf(get("https://cloud/a"), get("https://cloud/b")))
	if want := []string{"http_send", "http_send"}; !slices.Equal(calls, want) {
		t.Fatalf("the old one made the host calls %v, want %v", calls, want)
	}
	batch := &abi.HttpSendRequest{Requests: []*abi.HttpRequest{
		{Method: "GET", Url: "https://cloud/a", Headers: []*abi.HttpHeader{{Name: "User-Agent", Value: "v2"}}, TimeoutMs: 7},
		{Method: "GET", Url: "https://cloud/b", Credential: "renamed"},
	}}
	r := replay(t, samples, zoneOf(batch))
	if r.Same != 1 || r.Samples != 1 || r.String() != "1 of 1 answers are the same" {
		t.Errorf("another batch and other headers: %s", r)
	}
	if r := replay(t, samples, zoneOf(get("https://cloud/a"), get("https://cloud/b"))); r.Same != 1 {
		t.Errorf("a second replay of the same samples: %s", r)
	}
}

func TestReplayNamesTheDifferences(t *testing.T) {
	samples := record(t, forbidden(t), abi.OpInstanceMetadata, aboutNode("node-1"), answering(abi.CodeOK, metadata("a"), nil))
	tests := map[string]struct {
		code     abi.Code
		response []byte
		err      error
		want     string
	}{
		"field":   {response: metadata("b"), want: `1 differ: instance_metadata node-1 metadata.zone: "a" -> "b"`},
		"code":    {code: abi.CodeNotFound, want: `instance_metadata node-1 code: ok -> not_found`},
		"answer":  {err: fmt.Errorf("op: %w", &abi.Error{Code: abi.CodeThrottled, Message: "hush"}), want: "code: ok -> throttled"},
		"trap":    {err: errors.New("trap:\n unreachable\x1b"), want: `error: ok -> trap:;  unreachable?`},
		"late":    {err: context.DeadlineExceeded, want: "error: ok -> no answer in time"},
		"unknown": {code: 77, want: "error: ok -> the answer has an unknown code"},
		"nothing": {want: "error: ok -> success without a response"},
		"garbage": {response: []byte{0xff}, want: "error: ok -> the answer does not decode"},
		"absent":  {response: []byte{}, want: "metadata: present -> absent"},
	}
	for name, test := range tests {
		r := replay(t, samples, answering(test.code, test.response, test.err))
		if r.Different != 1 || r.Same+r.Incomparable != 0 || !strings.Contains(r.String(), test.want) || strings.Contains(r.String(), "hush") {
			t.Errorf("%s: %s, want %s", name, r, test.want)
		}
	}
}

func answering(code abi.Code, response []byte, err error) func(hostCall, abi.Op, []byte) (abi.Code, []byte, error) {
	return func(hostCall, abi.Op, []byte) (abi.Code, []byte, error) { return code, response, err }
}

func TestReplayComparesCodesWithoutTheirText(t *testing.T) {
	samples := record(t, forbidden(t), abi.OpInstanceMetadata, aboutNode("n"), answering(0, nil, &abi.Error{Code: abi.CodeInstanceNotFound, Message: "no n"}))
	if r := replay(t, samples, answering(abi.CodeInstanceNotFound, nil, nil)); r.Same != 1 {
		t.Errorf("the same code: %s", r)
	}
	if r := replay(t, samples, answering(abi.CodeOK, metadata("a"), nil)); r.Different != 1 || r.Differences[0].Old != "instance_not_found" {
		t.Errorf("success instead: %s", r)
	}
}

const secret = "s3cret"

func TestWhatWasNotRecordedIsIncomparable(t *testing.T) {
	var calls []string
	samples := record(t, cloud(t, map[string]string{"https://cloud/a": "A"}, &calls), abi.OpInstanceMetadata, aboutNode("node-1"), zoneOf(get("https://cloud/a")))
	other := &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{
		Method: "GET", Url: "https://user:" + secret + "@cloud/new/path?token=" + secret + "#" + secret,
		Headers: []*abi.HttpHeader{{Name: "Authorization", Value: secret}}, Body: []byte(secret), CredentialScope: secret,
	}}}
	r := replay(t, samples, zoneOf(other))
	want := "0 of 1 answers are the same, 1 could not be compared: instance_metadata node-1 asks http_send GET https://cloud/new/path, which was not recorded"
	if r.Incomparable != 1 || r.String() != want {
		t.Errorf("%s\nwant %s", r, want)
	}
	ignores := func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error) {
		call(abi.CapabilityHTTP, other)
		return abi.CodeOK, metadata("A"), nil
	}
	if r := replay(t, samples, ignores); r.Same != 1 || len(r.Unanswered) != 0 {
		t.Errorf("the same answer all the same: %s", r)
	}
	traps := func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error) {
		call(abi.CapabilityHTTP, other)
		return 0, nil, errors.New("unreachable")
	}
	if r := replay(t, samples, traps); r.Different != 1 {
		t.Errorf("a guest that traps on an unavailable cloud: %s", r)
	}
	for _, bad := range []string{"://" + secret, secret, "https://cloud:" + secret + "/"} {
		if r := replay(t, samples, zoneOf(get(bad))); r.Incomparable != 1 || strings.Contains(r.String(), secret) {
			t.Errorf("%q: %s", bad, r)
		}
	}
}

func TestAnotherScopeIsAnotherRequest(t *testing.T) {
	var calls []string
	samples := record(t, cloud(t, map[string]string{"https://cloud/a": "A"}, &calls), abi.OpInstanceMetadata, aboutNode("n"), zoneOf(get("https://cloud/a")))
	scoped := get("https://cloud/a")
	scoped.Requests[0].CredentialScope = "another project"
	if r := replay(t, samples, zoneOf(scoped)); r.Incomparable != 1 {
		t.Errorf("the answer of one project was given for another: %s", r)
	}
}

func TestReplayNeverLeaves(t *testing.T) {
	samples := record(t, forbidden(t), abi.OpLoadBalancerGet, nil, answering(abi.CodeOK, []byte{8, 1}, nil))
	got := map[string]abi.Code{}
	replay(t, samples, func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		tries := map[string]struct {
			name    string
			request abi.Message
		}{
			"log":           {abi.ImportLog, &abi.LogRequest{Message: "m"}},
			"event":         {abi.CapabilityEvent, &abi.EventRequest{Reason: "R", Message: "m"}},
			"store write":   {abi.CapabilityStore, &abi.StoreRequest{Write: &abi.StoreWrite{Version: "1"}}},
			"store read":    {abi.CapabilityStore, &abi.StoreRequest{}},
			"nodes":         {abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1}},
			"cache put":     {abi.CapabilityCache, &abi.CacheRequest{Key: "k", Put: &abi.CacheValue{TtlMs: 1}}},
			"cache get":     {abi.CapabilityCache, &abi.CacheRequest{Key: "other"}},
			"http":          {abi.CapabilityHTTP, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Method: "POST", Url: "https://cloud/"}}}},
			"http, nothing": {abi.CapabilityHTTP, &abi.HttpSendRequest{}},
			"kube patch":    {abi.CapabilityKube, &abi.KubeRequest{Resource: "nodes", Patch: &abi.KubePatch{}}},
			"unknown":       {"format_disk", &abi.Done{}},
		}
		for name, try := range tries {
			got[name], _ = call(try.name, try.request)
		}
		return abi.CodeOK, []byte{8, 1}, nil
	})
	want := map[string]abi.Code{
		"log": 0, "event": 0, "cache put": 0, "cache get": 0, "http": 0, "http, nothing": abi.CodeInvalid,
		"store write": abi.CodeDenied, "store read": abi.CodeUnavailable, "nodes": abi.CodeUnavailable,
		"kube patch": 0, "unknown": abi.CodeUnavailable,
	}
	for name, code := range want {
		if c, asked := got[name]; !asked || c != code {
			t.Errorf("%s: %s, want %s", name, c, code)
		}
	}
}

func TestAStoreWriteIsNamed(t *testing.T) {
	samples := record(t, forbidden(t), abi.OpLoadBalancerGet, encoded(requests.LoadBalancer("default", "web")), answering(abi.CodeOK, []byte{8, 1}, nil))
	r := replay(t, samples, func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		code, _ := call(abi.CapabilityStore, &abi.StoreRequest{Write: &abi.StoreWrite{Version: "1"}})
		return code, nil, nil
	})
	if r.Incomparable != 1 || r.Unanswered[0] != "lb_get default/web writes to the store, which no replayed op may" {
		t.Errorf("%s", r)
	}
}

func TestReplayedOpsAreNotRecorded(t *testing.T) {
	r := NewRecorder(Options{})
	keep(r, abi.OpInstanceExists, aboutNode("n"), []byte{8, 1})
	samples := r.Samples()
	Replay(t.Context(), samples, askFunc(func(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error) {
		ctx, end := r.Begin(ctx, op, aboutNode("replayed"))
		end(abi.CodeOK, []byte{8, 1}, nil)
		Host(forbidden(t), positionOf).HostCall(ctx, abi.ImportLog, nil)
		return abi.CodeOK, []byte{8, 1}, nil
	}), ReplayOptions{})
	if got := r.Samples(); len(got) != 1 || got[0] != samples[0] {
		t.Error("a replayed op was recorded")
	}
}

type askFunc func(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error)

func (f askFunc) Ask(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error) {
	return f(ctx, op, request)
}

func TestReplayEndsWithItsContext(t *testing.T) {
	r := NewRecorder(Options{})
	for i := range 10 {
		keep(r, abi.OpInstanceExists, aboutNode(fmt.Sprint(i)), []byte{8, 1})
	}
	hangs := askFunc(func(ctx context.Context, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		<-ctx.Done()
		return 0, nil, ctx.Err()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		start := time.Now()
		report := Replay(ctx, r.Samples(), hangs, ReplayOptions{})
		if took := time.Since(start); took != 25*time.Second {
			t.Errorf("it took %v", took)
		}
		// Two at a time, of 10 s each: four are late, two are cut off, four are not asked.
		if report.Samples != 10 || report.Different != 4 || report.Incomparable != 6 {
			t.Errorf("%+v", report)
		}
		if want := "instance_exists 5 was not answered: the time is over"; report.Unanswered[0] != want {
			t.Errorf("%q, want %q", report.Unanswered[0], want)
		}
	})
}

func TestReplayKeepsToItsConcurrency(t *testing.T) {
	r := NewRecorder(Options{})
	for i := range 10 {
		keep(r, abi.OpInstanceExists, aboutNode(fmt.Sprint(i)), []byte{8, 1})
	}
	for _, concurrency := range []int{1, 2, 5} {
		running := make(chan struct{}, concurrency)
		report := Replay(t.Context(), r.Samples(), askFunc(func(context.Context, abi.Op, []byte) (abi.Code, []byte, error) {
			select {
			case running <- struct{}{}:
			default:
				t.Errorf("more than %d at once", concurrency)
				return 0, nil, nil
			}
			<-running
			return abi.CodeOK, []byte{8, 1}, nil
		}), ReplayOptions{Concurrency: concurrency})
		if report.Same != 10 {
			t.Errorf("%s", report)
		}
	}
}

// A new zone of a hundred Nodes is one difference, and does not hide another.
func TestEqualDifferencesAreOne(t *testing.T) {
	r := NewRecorder(Options{MaxSamples: 100})
	keep(r, abi.OpInstanceMetadata, aboutNode("other"), metadata("b"))
	for i := range 99 {
		keep(r, abi.OpInstanceMetadata, aboutNode(fmt.Sprintf("node-%d", i)), metadata("a"))
	}
	report := replay(t, r.Samples(), answering(abi.CodeOK, metadata("c"), nil))
	if report.Different != 100 || len(report.Differences) != 2 {
		t.Fatalf("%d differ, named are %v", report.Different, report.Differences)
	}
	text := report.String()
	for _, want := range []string{`metadata.zone: "a" -> "c" (and 98 more answers)`, `instance_metadata other metadata.zone: "b" -> "c"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("not once %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, `"a" -> "c"`); n != 1 {
		t.Errorf("one difference is told %d times:\n%s", n, text)
	}
}

func TestReportIsBounded(t *testing.T) {
	r := NewRecorder(Options{MaxSamples: 100})
	long := strings.Repeat("\x00é\"", 2000)
	for i := range 100 {
		keep(r, abi.OpInstanceMetadata, aboutNode(fmt.Sprint(i, long)), metadata(fmt.Sprint(i)))
	}
	report := replay(t, r.Samples(), answering(abi.CodeOK, metadata(long), nil))
	if report.Different != 100 || len(report.Differences) != 20 {
		t.Errorf("%d differ, %d are named", report.Different, len(report.Differences))
	}
	if n := len(report.String()); n > 1000 {
		t.Errorf("the text has %d bytes", n)
	}
	for _, d := range report.Differences {
		checkTexts(t, d)
	}
	report = replay(t, r.Samples(), zoneOf(get("https://cloud/"+strings.Repeat("long/", 1000))))
	if len(report.Unanswered) != 20 || len(report.Unanswered[0]) > maxReasonText {
		t.Errorf("%d reasons, the first has %d bytes", len(report.Unanswered), len(report.Unanswered[0]))
	}
	if (Report{}).String() != "there were no answers to compare" {
		t.Error((Report{}).String())
	}
}
