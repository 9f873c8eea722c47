package shadow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
)

// zoned asks the cloud, and answers with the zone.
func zoned(zone, url string) run {
	return func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		if url != "" {
			if code, _ := call(abi.CapabilityHTTP, get(url)); code != abi.CodeOK {
				return code, nil, nil
			}
		}
		return abi.CodeOK, metadata(zone), nil
	}
}

func answering(code abi.Code, response []byte, err error) run {
	return func(hostCall, abi.Op, []byte) (abi.Code, []byte, error) { return code, response, err }
}

func ofNode(name string) Question {
	return Question{Op: abi.OpInstanceMetadata, Request: aboutNode(name)}
}

// From the record nothing is asked of the cloud, in whatever batches and headers.
func TestTheRecordAnswersForTheCloud(t *testing.T) {
	var calls []string
	real := cloud(t, map[string]string{"https://cloud/a": "A"}, &calls)
	samples := record(t, real, abi.OpInstanceMetadata, aboutNode("node-1"), zoned("A", "https://cloud/a"))
	r := rehearse(t, forbidden(t), asked(samples), zoned("A", "https://cloud/a"), nil)
	if r.Same != 1 || r.Questions != 1 {
		t.Errorf("%+v", r)
	}
	r = rehearse(t, forbidden(t), asked(samples), zoned("B", "https://cloud/a"), nil)
	if r.Different != 1 || r.Differs() != `1 of 1 answers differ: instance_metadata node-1 metadata.zone: "A" -> "B"` {
		t.Errorf("%s", r.Differs())
	}
}

// What is not in the record is asked of the cloud, by both, so that a cloud which has
// changed is no difference; an empty record is no reason to compare nothing.
func TestBothAskTheCloudWhereTheRecordEnds(t *testing.T) {
	var calls []string
	real := cloud(t, map[string]string{}, &calls)
	samples := record(t, real, abi.OpInstanceMetadata, aboutNode("n"), zoned("then", "https://cloud/a"))
	for name, test := range map[string]struct {
		questions          []Question
		candidate, serving string
		same, different    int
	}{
		"another request, the same answer":           {asked(samples), "then", "now", 1, 0},
		"another request, the cloud changed":         {asked(samples), "now", "now", 1, 0},
		"another request, another answer":            {asked(samples), "other", "now", 0, 1},
		"nothing was recorded, the same":             {[]Question{ofNode("n")}, "a", "a", 1, 0},
		"nothing was recorded, a lie about the zone": {[]Question{ofNode("n")}, "b", "a", 0, 1},
	} {
		if r := rehearse(t, real, test.questions, zoned(test.candidate, "https://cloud/b"), zoned(test.serving, "https://cloud/a")); r.Same != test.same || r.Different != test.different {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestVerdicts(t *testing.T) {
	fine, trap := answering(abi.CodeOK, metadata("a"), nil), errors.New("wasm trap: unreachable")
	for name, test := range map[string]struct {
		candidate, serving run
		failure, unknown   string
		differs            string
		same, alone        int
	}{
		"the same":                   {candidate: fine, serving: fine, same: 1},
		"nothing serves":             {candidate: fine, alone: 1},
		"what serves traps":          {candidate: fine, serving: answering(0, nil, trap), alone: 1},
		"a trap":                     {candidate: answering(0, nil, trap), serving: fine, failure: "instance_metadata n: wasm trap: unreachable"},
		"a trap, nothing serves":     {candidate: answering(0, nil, trap), failure: "wasm trap"},
		"both trap":                  {candidate: answering(0, nil, trap), serving: answering(0, nil, trap), unknown: "so does the serving module"},
		"undecodable":                {candidate: answering(abi.CodeOK, []byte{0xff}, nil), serving: fine, failure: "the answer does not decode"},
		"no response":                {candidate: answering(abi.CodeOK, nil, nil), serving: fine, failure: "success without a response"},
		"refused by the manager":     {candidate: answering(abi.CodeOK, metadata("invalid"), nil), serving: fine, failure: "invalid answer"},
		"unknown code":               {candidate: answering(77, nil, nil), serving: fine, failure: "unknown code"},
		"a code of another op":       {candidate: answering(abi.CodeImplementedElsewhere, nil, nil), serving: fine, failure: "which is no answer to it"},
		"internal":                   {candidate: answering(abi.CodeInternal, nil, nil), serving: fine, failure: "it answers internal"},
		"the cloud is away":          {candidate: answering(abi.CodeUnavailable, nil, nil), serving: answering(abi.CodeUnavailable, nil, nil), unknown: "it answers unavailable"},
		"away only for it":           {candidate: answering(abi.CodeUnavailable, nil, nil), serving: fine, differs: "code: ok -> unavailable"},
		"the machine is gone for it": {candidate: answering(abi.CodeInstanceNotFound, nil, nil), serving: fine, differs: "code: ok -> instance_not_found"},
		"empty":                      {candidate: answering(abi.CodeOK, []byte{}, nil), serving: fine, differs: "metadata: present -> absent"},
	} {
		r := rehearse(t, forbidden(t), []Question{ofNode("n")}, test.candidate, test.serving)
		unknown := strings.Join(r.Unknowns, "")
		if !strings.Contains(r.Failure, test.failure) || (r.Failure == "") != (test.failure == "") ||
			!strings.Contains(unknown, test.unknown) || (unknown == "") != (test.unknown == "") ||
			!strings.Contains(r.Differs(), test.differs) || (r.Different == 0) != (test.differs == "") || r.Same != test.same || r.Alone != test.alone {
			t.Errorf("%s: %+v, differs %q", name, r, r.Differs())
		}
	}
}

// A guest that takes its own time is slow, or fails; one whose cloud takes it is neither.
func TestTimes(t *testing.T) {
	takes := func(own, cloud time.Duration) run {
		return func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
			time.Sleep(own)
			if cloud > 0 {
				call(abi.CapabilityHTTP, get("https://cloud/"+cloud.String()))
			}
			if own+cloud > 10*time.Second {
				return 0, nil, context.DeadlineExceeded
			}
			return abi.CodeOK, metadata("a"), nil
		}
	}
	real := hostFunc(func(_ context.Context, _ string, request []byte) (abi.Code, []byte) {
		took, _ := time.ParseDuration(strings.TrimPrefix(decoded(t, request, &abi.HttpSendRequest{}).Requests[0].Url, "https://cloud/"))
		time.Sleep(took)
		return abi.CodeOK, bodies("x")
	})
	for name, test := range map[string]struct {
		candidate, serving [2]time.Duration
		want               string
	}{
		"slow":                {[2]time.Duration{3100 * time.Millisecond}, [2]time.Duration{2 * time.Millisecond}, "instance_metadata n takes 3.1s, before 2ms"},
		"a little slower":     {[2]time.Duration{900 * time.Millisecond}, [2]time.Duration{2 * time.Millisecond}, ""},
		"as slow as before":   {[2]time.Duration{3 * time.Second}, [2]time.Duration{2 * time.Second}, ""},
		"a slow cloud":        {[2]time.Duration{0, 5 * time.Second}, [2]time.Duration{0, time.Millisecond}, ""},
		"it hangs":            {[2]time.Duration{11 * time.Second}, [2]time.Duration{}, "instance_metadata n: no answer within 11s"},
		"its cloud is silent": {[2]time.Duration{0, 11 * time.Second}, [2]time.Duration{}, "error: ok -> the cloud has not answered within 11s"},
		"the cloud is silent": {[2]time.Duration{0, 11 * time.Second}, [2]time.Duration{0, 11 * time.Second}, "instance_metadata n: the cloud has not answered"},
		"nearly silent":       {[2]time.Duration{0, 10100 * time.Millisecond}, [2]time.Duration{0, 9900 * time.Millisecond}, "instance_metadata n: the cloud has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rehearse(t, real, []Question{ofNode("n")}, takes(test.candidate[0], test.candidate[1]), takes(test.serving[0], test.serving[1]))
				if got := r.Failure + r.Differs() + strings.Join(r.Unknowns, ""); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}

// Who writes in an op that reads is held, where what serves answers without; where that
// writes as well, or nothing serves, nobody knows. The same answer is the same all the same.
func TestARefusedWrite(t *testing.T) {
	gated := hostFunc(func(ctx context.Context, _ string, _ []byte) (abi.Code, []byte) {
		if gate := writegate.FromContext(ctx); gate == nil {
			t.Error("there is no gate")
		} else {
			return gate.Refuse("POST https://cloud/login is not sent").Code, nil
		}
		return abi.CodeOK, nil
	})
	serving := answering(abi.CodeOK, metadata("a"), nil)
	regardless := func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error) {
		call(abi.CapabilityHTTP, get("https://cloud/x"))
		return serving(call, op, request)
	}
	for name, test := range map[string]struct {
		candidate, serving run
		differs, unknown   string
		same               int
	}{
		"what serves does not":  {candidate: zoned("a", "https://cloud/x"), serving: serving, differs: "instance_metadata n error: ok -> POST https://cloud/login is not sent"},
		"what serves does, too": {candidate: zoned("a", "https://cloud/x"), serving: zoned("a", "https://cloud/x"), unknown: "instance_metadata n: POST https://cloud/login is not sent"},
		"nothing serves":        {candidate: zoned("a", "https://cloud/x"), unknown: "instance_metadata n: POST https://cloud/login is not sent"},
		"it needs no answer":    {candidate: regardless, serving: serving, same: 1},
	} {
		r := rehearse(t, gated, []Question{ofNode("n")}, test.candidate, test.serving)
		unknown := strings.Join(r.Unknowns, "")
		if r.Wrote != "POST https://cloud/login is not sent" || r.Same != test.same || unknown != test.unknown ||
			!strings.Contains(r.Differs(), test.differs) || (r.Different == 0) != (test.differs == "") {
			t.Errorf("%s: %+v, differs %q", name, r, r.Differs())
		}
	}
}

// A slow cloud is asked one question after the other, of candidate and what serves at the
// same time: so many have an answer within the time of a rehearsal.
func TestSlowClouds(t *testing.T) {
	for took, want := range map[time.Duration]int{20 * time.Millisecond: 16, 3 * time.Second: 16, 10 * time.Second: 6} {
		synctest.Test(t, func(t *testing.T) {
			real := hostFunc(func(ctx context.Context, _ string, _ []byte) (abi.Code, []byte) {
				select {
				case <-time.After(took):
					return abi.CodeOK, bodies("x")
				case <-ctx.Done():
					return abi.CodeUnavailable, nil
				}
			})
			var questions []Question
			for range 16 {
				questions = append(questions, ofNode("n"))
			}
			good := zoned("a", "https://cloud/x")
			r := &Rehearsal{Candidate: guest{Host(real), good}, Serving: guest{Host(real), good}, Check: decodes, Concurrency: 2, OwnTime: time.Second}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second+time.Millisecond)
			defer cancel()
			if out := r.Run(ctx, questions); out.Same != want || out.Unknown != 16-want {
				t.Errorf("%v a call: %+v", took, out)
			}
		})
	}
}

// After a failure nothing is asked any more, and the rest is unknown.
func TestTheFirstFailureEnds(t *testing.T) {
	questions := []Question{ofNode("a")}
	for range 9 {
		questions = append(questions, ofNode("b"))
	}
	r := &Rehearsal{Candidate: guest{Host(forbidden(t)), answering(0, nil, errors.New("trap"))}, Check: decodes, Concurrency: 1, OwnTime: time.Second}
	if out := r.Run(t.Context(), questions); out.Failed != 1 || out.Unknown != 9 {
		t.Errorf("%+v", out)
	}
}
