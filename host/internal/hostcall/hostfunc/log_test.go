package hostfunc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

func TestLog(t *testing.T) {
	const base = `"module"="static" "kind"="Service" "object"={"name"="web" "namespace"="default"}`
	for name, test := range map[string]struct {
		request *abi.LogRequest
		want    []string
	}{
		"info":     {&abi.LogRequest{Message: "text", Severity: abi.LogRequest_SEVERITY_INFO}, []string{`"level"=0 "msg"="text" ` + base}},
		"no level": {&abi.LogRequest{Message: "text"}, []string{`"level"=0 "msg"="text" ` + base}},
		"debug":    {&abi.LogRequest{Message: "text", Severity: abi.LogRequest_SEVERITY_DEBUG}, []string{`"level"=4 "msg"="text" ` + base}},
		"warning":  {&abi.LogRequest{Message: "text", Severity: abi.LogRequest_SEVERITY_WARNING}, []string{`"level"=0 "msg"="text" ` + base + ` "severity"="warning"`}},
		"error":    {&abi.LogRequest{Message: "text", Severity: abi.LogRequest_SEVERITY_ERROR}, []string{`"msg"="text" "error"=null ` + base}},
		"values": {&abi.LogRequest{Message: "text", Values: []*abi.KeyValue{{Key: "a", Value: "ü"}, {Key: "provider", Value: "forged"}}},
			[]string{`"level"=0 "msg"="text" ` + base + ` "a"="ü" "guest.provider"="forged"`}},
		"escaped": {&abi.LogRequest{Message: "a\nI0101 forged\x1b[2J\u202e", Values: []*abi.KeyValue{{Key: "k\n", Value: "\r"}}},
			[]string{`"level"=0 "msg"="a\\nI0101 forged\\x1b[2J\\u202e" ` + base + ` "k_"="\\r"`}},
	} {
		t.Run(name, func(t *testing.T) {
			options := granted(t)
			logger, got := lines(4)
			options.Logger = logger
			if err := call(onService(t.Context()), t, hostfunc.New(options), abi.ImportLog, test.request, nil); err != nil {
				t.Fatal(err)
			}
			// funcr writes a klog.ObjectRef by its exported fields.
			for i := range *got {
				(*got)[i] = strings.ReplaceAll((*got)[i], `{"name"="web" "namespace"="default"}`, `{"name"="web" "namespace"="default"}`)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDebugLinesCostNothingWhenTheyAreOff(t *testing.T) {
	options := granted(t)
	logger, got := lines(0)
	options.Logger = logger
	options.Rates = hostfunc.NewRates(hostfunc.Limits{LogLines: 1, LogLinesBurst: 1})
	h := hostfunc.New(options)
	for range 10 {
		if err := call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: "debug", Severity: abi.LogRequest_SEVERITY_DEBUG}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: "info"}, nil); err != nil {
		t.Fatal(err)
	}
	if len(*got) != 1 || !strings.Contains((*got)[0], `"info"`) {
		t.Errorf("lines %q, want only the second", *got)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	options := granted(t)
	logger, got := lines(0)
	options.Logger = logger
	h := hostfunc.New(options)
	many := &abi.LogRequest{Message: "many"}
	for i := range 100 {
		many.Values = append(many.Values, &abi.KeyValue{Key: fmt.Sprint("k", i), Value: "v"})
	}
	for _, request := range []*abi.LogRequest{
		{Message: strings.Repeat("ü", abi.MaxLogMessageBytes)},
		{Message: "short", Values: []*abi.KeyValue{{Key: "k", Value: strings.Repeat("v", 2*abi.MaxLogMessageBytes)}}},
		many,
	} {
		if err := call(t.Context(), t, h, abi.ImportLog, request, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range *got {
		if len(line) > abi.MaxLogMessageBytes+200 || !strings.Contains(line, `"truncated"=true`) {
			t.Errorf("a line of %d bytes: %.100q", len(line), line)
		}
	}
	want(t, call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: strings.Repeat("x", 1<<20)}, nil), abi.CodeTooLarge, "limit")
	if len(*got) != 3 {
		t.Errorf("%d lines, want 3", len(*got))
	}
}

func TestFloodsAreDroppedAndCounted(t *testing.T) {
	for name, limits := range map[string]hostfunc.Limits{
		"lines": {LogLines: 1, LogLinesBurst: 5},
		"bytes": {LogBytes: 1, LogBytesBurst: 200},
	} {
		t.Run(name, func(t *testing.T) {
			options := granted(t)
			logger, got := lines(0)
			options.Logger, options.Rates = logger, hostfunc.NewRates(limits)
			dropped := 0
			options.Dropped = func(what string) {
				if what == hostfunc.DroppedLog {
					dropped++
				}
			}
			h := hostfunc.New(options)
			stdout := h.Output("stdout")
			const n = 50
			for range n {
				if err := call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: strings.Repeat("x", 40)}, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := stdout.Write([]byte(strings.Repeat("y", 40) + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			if len(*got) == 0 || len(*got) > 10 || dropped+len(*got) != 2*n {
				t.Errorf("%d lines were written and %d dropped, of %d", len(*got), dropped, 2*n)
			}
		})
	}
}

func TestDroppedLinesAreReportedByTheNextOne(t *testing.T) {
	options := granted(t)
	logger, got := lines(0)
	options.Logger = logger
	options.Rates = hostfunc.NewRates(hostfunc.Limits{LogLines: 20, LogLinesBurst: 1})
	h := hostfunc.New(options)
	for !strings.Contains(strings.Join(*got, "\n"), `"dropped"=`) {
		if err := call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: "x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOutput(t *testing.T) {
	options := granted(t)
	logger, got := lines(0)
	options.Logger = logger
	w := hostfunc.New(options).Output("stderr")
	for _, s := range []string{"one\ntwo", " and more\n\n", "\xff\tbytes\n", strings.Repeat("z", 10_000), "\nunfinished"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	var wanted []string
	for _, s := range []string{"one", "two and more", `\\xff\\tbytes`, strings.Repeat("z", 4096), strings.Repeat("z", 4096), strings.Repeat("z", 10_000-8192)} {
		wanted = append(wanted, `"level"=0 "msg"="`+s+`" "module"="static" "stream"="stderr"`)
	}
	if diff := cmp.Diff(wanted, *got); diff != "" {
		t.Error(diff)
	}
}

func TestEvent(t *testing.T) {
	options := granted(t)
	var got []string
	options.Events = fakeEvents(func(object runtime.Object, eventtype, reason, message string) {
		ref := object.(*corev1.ObjectReference)
		got = append(got, fmt.Sprint(ref.Kind, " ", ref.Namespace, "/", ref.Name, " ", eventtype, " ", reason, " ", message))
	})
	options.Rates = hostfunc.NewRates(hostfunc.Limits{Events: 1, EventsBurst: 2})
	h := hostfunc.New(options)
	ctx := onService(t.Context())
	for name, request := range map[string]*abi.EventRequest{
		"no reason":        {Message: "m"},
		"lower case":       {Reason: "reason", Message: "m"},
		"spaces":           {Reason: "A reason", Message: "m"},
		"not ASCII":        {Reason: "Ärger", Message: "m"},
		"long reason":      {Reason: strings.Repeat("R", 129), Message: "m"},
		"no message":       {Reason: "Reason"},
		"long message":     {Reason: "Reason", Message: strings.Repeat("m", 1025)},
		"long once quoted": {Reason: "Reason", Message: strings.Repeat("\x1b", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, call(ctx, t, h, abi.CapabilityEvent, request, nil), abi.CodeInvalid, "must")
		})
	}
	ok := &abi.EventRequest{Reason: "PoolLow2", Message: "two\nleft"}
	want(t, call(t.Context(), t, h, abi.CapabilityEvent, ok, nil), abi.CodeNotFound, "no object")
	for _, warning := range []bool{false, true} {
		ok.Warning = warning
		if err := call(ctx, t, h, abi.CapabilityEvent, ok, nil); err != nil {
			t.Error(err)
		}
	}
	want(t, call(ctx, t, h, abi.CapabilityEvent, ok, nil), abi.CodeThrottled, "too many")
	if diff := cmp.Diff([]string{`Service default/web Normal PoolLow2 two\nleft`, `Service default/web Warning PoolLow2 two\nleft`}, got); diff != "" {
		t.Error(diff)
	}
}

// TestEventsTellNothingOfSecrets: a mark is longer than a secret, and shorter than
// another. No length of a message makes another answer of that.
func TestEventsTellNothingOfSecrets(t *testing.T) {
	for name, secret := range map[string]string{"short": "hunter2", "long": strings.Repeat("hunter2", 10)} {
		t.Run(name, func(t *testing.T) {
			host := func(secret string) (*hostfunc.Host, *[]string) {
				var events []string
				return hostfunc.New(hostfunc.Options{
					Rates:  hostfunc.NewRates(hostfunc.Limits{Events: 1e6, EventsBurst: 1e6}),
					Events: fakeEvents(func(_ runtime.Object, _, _, message string) { events = append(events, message) }),
					Scrub:  func(s string) string { return strings.ReplaceAll(s, secret, "[scrubbed:cloud]") },
				}), &events
			}
			right, scrubbed := host(secret)
			wrong, _ := host("another")
			for size := range 1200 {
				request := &abi.EventRequest{Reason: "Guess", Message: secret + strings.Repeat("x", max(0, size-len(secret)))}
				told := call(onService(t.Context()), t, right, abi.CapabilityEvent, request, nil)
				other := call(onService(t.Context()), t, wrong, abi.CapabilityEvent, request, nil)
				if fmt.Sprint(told) != fmt.Sprint(other) {
					t.Fatalf("%d bytes: who guesses right is told %v, who guesses wrong %v", size, told, other)
				}
			}
			for _, message := range *scrubbed {
				if len(message) > 1024 || strings.Contains(message, secret) {
					t.Fatalf("an Event of %d bytes: %q", len(message), message)
				}
			}
		})
	}
}

func TestSecretsAreScrubbedFromLogEventsAndOutput(t *testing.T) {
	options := granted(t)
	logger, got := lines(4)
	options.Logger = logger
	options.Scrub = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[scrubbed]") }
	var events []string
	options.Events = fakeEvents(func(_ runtime.Object, _, _, message string) { events = append(events, message) })
	h := hostfunc.New(options)
	request := &abi.LogRequest{Message: "password hunter2", Values: []*abi.KeyValue{{Key: "hunter2", Value: "is hunter2"}}}
	if err := call(onService(t.Context()), t, h, abi.ImportLog, request, nil); err != nil {
		t.Fatal(err)
	}
	if err := call(onService(t.Context()), t, h, abi.CapabilityEvent, &abi.EventRequest{Reason: "Leak", Message: "it is hunter2"}, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(h.Output("stdout"), "and hunter2")
	all := strings.Join(*got, "\n") + fmt.Sprint(events)
	if strings.Contains(all, "hunter2") || strings.Count(all, "scrubbed]")+strings.Count(all, `"_scrubbed_"=`) != 5 {
		t.Errorf("not scrubbed: %s", all)
	}
}

func TestRatesOutliveGenerations(t *testing.T) {
	options := granted(t)
	logger, got := lines(4)
	options.Logger = logger
	options.Rates = hostfunc.NewRates(hostfunc.Limits{LogLines: 1, LogLinesBurst: 2})
	for range 5 { // generations, each with a host of its own
		if err := call(t.Context(), t, hostfunc.New(options), abi.ImportLog, &abi.LogRequest{Message: "line"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(*got) > 3 {
		t.Errorf("%d lines of five generations, the burst is 2", len(*got))
	}
}
