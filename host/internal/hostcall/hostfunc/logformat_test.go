package hostfunc_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	logsapi "k8s.io/component-base/logs/api/v1"
	logsjson "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

// pair is a field of a line, as it is read back.
type pair struct{ Key, Value string }

// logFormats are those of --logging-format, with what reads their lines back:
// strictly, so that a field is where a collector of logs would see one.
func logFormats(tb testing.TB) map[string]logFormat {
	return map[string]logFormat{"text": {textLogger(tb), readText}, "json": {jsonLogger, readJSON}}
}

type logFormat struct {
	// logger writes to w, and flush makes it do so.
	logger func(w io.Writer) (logger logr.Logger, flush func())
	read   func(tb testing.TB, line string) []pair
}

// textLogger is klog itself, which the manager logs with, as it writes to
// standard error.
func textLogger(tb testing.TB) func(io.Writer) (logr.Logger, func()) {
	tb.Helper()
	state := klog.CaptureState()
	tb.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			tb.Fatal(err)
		}
	}
	return func(w io.Writer) (logr.Logger, func()) {
		klog.SetOutput(w)
		return klog.NewKlogr(), klog.Flush
	}
}

func jsonLogger(w io.Writer) (logr.Logger, func()) {
	logger, control := logsjson.NewJSONLogger(logsapi.VerbosityLevel(0), logsjson.AddNopSync(w), nil, nil)
	return logger, control.Flush
}

var klogHeader = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^ \]]+:\d+\] `)

// readText takes a line apart: a header, the message in quotes, and pairs of a
// key and a value, in quotes or without spaces.
func readText(tb testing.TB, line string) (out []pair) {
	tb.Helper()
	rest := line[len(klogHeader.FindString(line)):]
	if len(rest) == len(line) {
		tb.Fatalf("the line has no header: %q", line)
	}
	next := func() string {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			value, _, _ := strings.Cut(rest, " ")
			rest = rest[len(value):]
			return value
		}
		rest = rest[len(quoted):]
		value, err := strconv.Unquote(quoted)
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
	out = append(out, pair{"msg", next()})
	for rest != "" {
		key, value, found := strings.Cut(strings.TrimPrefix(rest, " "), "=")
		if !found {
			tb.Fatalf("%q is no field, in %q", rest, line)
		}
		rest = value
		out = append(out, pair{key, next()})
	}
	return out
}

// readJSON takes a line apart, also where a key stands twice.
func readJSON(tb testing.TB, line string) (out []pair) {
	tb.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		tb.Fatalf("%q does not begin an object: %v", line, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			tb.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			tb.Fatal(err)
		}
		text := string(raw)
		if unquoted := ""; json.Unmarshal(raw, &unquoted) == nil {
			text = unquoted
		}
		switch key {
		case "ts", "caller", "v":
		default:
			out = append(out, pair{key.(string), text})
		}
	}
	return out
}

// logged is one line of a guest, as it is read back from a format.
func logged(tb testing.TB, format logFormat, request *abi.LogRequest) []pair {
	tb.Helper()
	var out bytes.Buffer
	logger, flush := format.logger(&out)
	h := hostfunc.New(hostfunc.Options{Provider: "static", Logger: logger})
	code, _ := h.HostCall(onService(tb.Context()), abi.ImportLog, encode(tb, request))
	flush()
	if code != abi.CodeOK {
		tb.Fatalf("log: %v", code)
	}
	text := out.String()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		tb.Fatalf("not one line: %q", text)
	}
	return format.read(tb, strings.TrimSuffix(text, "\n"))
}

// A line that is parsed back has exactly the fields that the host wrote.
func TestGuestsForgeNoFields(t *testing.T) {
	const forged = "x\" provider=\"other\" severity=\"none"
	for name, test := range map[string]struct {
		values []*abi.KeyValue
		want   []pair
	}{
		"usual":    {pairs("node", "n1", "addresses", "10.0.0.1, 10.0.0.2", "example.com/zone", "a b=c"), []pair{{"node", "n1"}, {"addresses", "10.0.0.1, 10.0.0.2"}, {"example.com/zone", "a b=c"}}},
		"quotes":   {pairs(forged, "v"), []pair{{"x__provider__other__severity__none", "v"}}},
		"equals":   {pairs("a=b provider=c", "v"), []pair{{"a_b_provider_c", "v"}}},
		"a line":   {pairs("k\nE0101 00:00:00.000000       1 main.go:1] \"forged\" k", "v"), []pair{{"k_E0101_00_00_00.000000_______1_main.go_1___forged__k", "v"}}},
		"JSON":     {pairs(`k":"v","provider":"other","x`, "v"), []pair{{"k___v___provider___other___x", "v"}}},
		"values":   {pairs("k", `v" provider="other`, "l", "a\n\tb=c\x1b[2J\u202e"), []pair{{"k", `v" provider="other`}, {"l", `a\n\tb=c\x1b[2J\u202e`}}},
		"reserved": {pairs("provider", "a", "Provider", "b", "MSG", "c", "err", "d", "object", "e", "ts", "f"), []pair{{"guest.provider", "a"}, {"guest.Provider.2", "b"}, {"guest.MSG", "c"}, {"guest.err", "d"}, {"guest.object", "e"}, {"guest.ts", "f"}}},
		// What the manager says of several providers, and what collectors make of an object.
		"of the manager": {pairs("module", "a", "Signer", "b", "object.name", "c", "objects", "d"), []pair{{"guest.module", "a"}, {"guest.Signer", "b"}, {"guest.object.name", "c"}, {"objects", "d"}}},
		"twice":          {pairs("k", "a", "k", "b", "K", "c", "k.2", "d"), []pair{{"k", "a"}, {"k.2", "b"}, {"K.3", "c"}, {"k.2.2", "d"}}},
		"empty":          {pairs("", "a", "", "b"), []pair{{"guest.", "a"}, {"guest..2", "b"}}},
		"no letter":      {pairs("1", "a", "-x", "b", ".", "c"), []pair{{"guest.1", "a"}, {"guest.-x", "b"}, {"guest..", "c"}}},
		"not ASCII":      {pairs("größe", "a"), []pair{{"gr__e", "a"}}},
		"long":           {pairs(strings.Repeat("k", 200), "a", strings.Repeat("k", 201), "b"), []pair{{strings.Repeat("k", 64), "a"}, {strings.Repeat("k", 62) + ".2", "b"}}},
		"long, reserved": {pairs("guest.provider", "a", "provider", "b"), []pair{{"guest.provider", "a"}, {"guest.provider.2", "b"}}},
	} {
		for format, f := range logFormats(t) {
			for severity := range abi.LogRequest_Severity_name {
				if severity := abi.LogRequest_Severity(severity); severity != abi.LogRequest_SEVERITY_DEBUG {
					t.Run(fmt.Sprint(name, "/", format, "/", severity), func(t *testing.T) {
						got := logged(t, f, &abi.LogRequest{Message: "text\" a=\"b\n", Severity: severity, Values: test.values})
						if diff := cmp.Diff(around(format, severity, `text" a="b\n`, test.want), got); diff != "" {
							t.Error(diff)
						}
					})
				}
			}
		}
	}
}

func pairs(texts ...string) (out []*abi.KeyValue) {
	for i := 0; i < len(texts); i += 2 {
		out = append(out, &abi.KeyValue{Key: texts[i], Value: texts[i+1]})
	}
	return out
}

// around adds what the host says.
func around(format string, severity abi.LogRequest_Severity, message string, values []pair) []pair {
	out := []pair{{"msg", message}}
	object := pair{"object", "default/web"}
	if format == "json" {
		object.Value = `{"name":"web","namespace":"default"}`
	}
	out = append(out, pair{"module", "static"}, pair{"kind", "Service"}, object)
	out = append(out, values...)
	if severity == abi.LogRequest_SEVERITY_WARNING {
		out = append(out, pair{"severity", "warning"})
	}
	return out
}

// Whatever the keys and values are: as many fields come back as were written,
// the host's say what the host says, and no key is there twice.
func FuzzLogFields(f *testing.F) {
	f.Add("msg", "k", "v", "k", "w")
	f.Add("m\n", "x\" provider=\"y", "\n\tE0101 x", "provider", "\xff\u202e\x1b[2J")
	formats := logFormats(f)
	f.Fuzz(func(t *testing.T, message, key1, value1, key2, value2 string) {
		request := &abi.LogRequest{Message: valid(message), Values: pairs(valid(key1), valid(value1), valid(key2), valid(value2))}
		for name, format := range formats {
			got := logged(t, format, request)
			seen := map[string]string{}
			for _, p := range got {
				key := strings.ToLower(p.Key)
				if _, twice := seen[key]; twice || strings.ContainsAny(p.Key, " =\"\n") {
					t.Errorf("%s: the key %q in %q", name, p.Key, got)
				}
				seen[key] = p.Value
			}
			if seen["module"] != "static" || seen["kind"] != "Service" || !strings.Contains(seen["object"], "web") {
				t.Errorf("%s: the host's fields are %q", name, got)
			}
			fields := 4 + len(request.Values)
			if seen["truncated"] == "true" {
				fields = len(got)
			}
			if len(got) != fields {
				t.Errorf("%s: %d fields, %d were written: %q", name, len(got), fields, got)
			}
		}
	})
}

func valid(s string) string { return strings.ToValidUTF8(s, "?") }
