package credential

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newTestScrubber(values ...string) *Scrubber {
	s := NewScrubber(clocktesting.NewFakePassiveClock(start))
	for i, v := range values {
		s.hold(owner{part: fmt.Sprint("owner", i)}, "cloud", []byte(v))
	}
	return s
}

func jsonString(t testing.TB, s string) string {
	t.Helper()
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func std(s string) string    { return base64.StdEncoding.EncodeToString([]byte(s)) }
func rawURL(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func mixedCase(s string) string {
	out := []byte(s)
	for i := range out {
		if i%3 == 0 {
			out[i] = strings.ToUpper(s)[i]
		}
	}
	return string(out)
}

// encodings are ways in which a server could write what it reflects.
func encodings(t testing.TB) map[string]func(string) string {
	chunked := func(s string) string {
		out := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 50) + s + "tail of it"))
		return out[:64] + "\r\n" + out[64:]
	}
	escapeAll := func(format string) func(string) string {
		return func(s string) string {
			var out strings.Builder
			for _, c := range []byte(s) {
				fmt.Fprintf(&out, format, c)
			}
			return out.String()
		}
	}
	return map[string]func(string) string{
		"plain":             func(s string) string { return "Authorization: Bearer " + s + "\n" },
		"base64 std":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64 url":        func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"base64 after 1":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "!")) },
		"base64 after 2":    func(s string) string { return base64.URLEncoding.EncodeToString([]byte("u:" + s + "!!")) },
		"base64 after 3":    func(s string) string { return base64.URLEncoding.EncodeToString([]byte("us:" + s + "!!!")) },
		"base64 in lines":   chunked,
		"base64 in URL":     func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("?>~" + s))) },
		"query":             url.QueryEscape,
		"path":              url.PathEscape,
		"query in lower":    escapeAll("%%%02x"),
		"JSON":              func(s string) string { return jsonString(t, s) },
		"JSON in JSON":      func(s string) string { return jsonString(t, jsonString(t, s)) },
		"JSON of PHP":       func(s string) string { return strings.ReplaceAll(jsonString(t, s), "/", `\/`) },
		"JSON, all escaped": escapeAll(`\u%04X`),
		"query in JSON":     func(s string) string { return jsonString(t, url.QueryEscape(s)) },
		"backslash x":       escapeAll(`\x%02x`),
		"HTML":              html.EscapeString,
		"HTML numbers":      escapeAll("&#x%x;"),
		"hex":               func(s string) string { return hex.EncodeToString([]byte(s)) },
		"HEX":               func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte("a" + s))) },
		"URL twice":         func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
		"hEx":               func(s string) string { return mixedCase(hex.EncodeToString([]byte(s))) },
		"base64 twice":      func(s string) string { return std(std(s)) },
		"base64 twice, 1":   func(s string) string { return std("ab" + std("u"+s+"!") + "c") },
		"base64 twice, 2":   func(s string) string { return rawURL("abc" + std("us"+s+"!!") + "cd") },
		"base64 url in std": func(s string) string { return std("x" + rawURL("us:"+s)) },
		"hex of base64":     func(s string) string { return mixedCase(hex.EncodeToString([]byte(std("u:" + s + "?")))) },
		"base64 of hex":     func(s string) string { return std("id=" + hex.EncodeToString([]byte(s))) },
		"base64 of HEX":     func(s string) string { return rawURL("i=" + strings.ToUpper(hex.EncodeToString([]byte(s)))) },
		"hex of hex":        func(s string) string { return hex.EncodeToString([]byte(hex.EncodeToString([]byte(s)))) },
		"base64 2 in lines": func(s string) string { return chunked(std("u:" + s)) },
		"URL three times":   func(s string) string { return url.QueryEscape(url.QueryEscape(url.QueryEscape(s))) },
		"JSON three times":  func(s string) string { return jsonString(t, jsonString(t, jsonString(t, s))) },
		"URL, JSON, HTML":   func(s string) string { return html.EscapeString(jsonString(t, url.PathEscape(s))) },
		"indented base64": func(s string) string {
			out := std(strings.Repeat("x", 30) + s + strings.Repeat("y", 30))
			return out[:44] + "\n      " + out[44:]
		},
		"base64 in JSON in URL": func(s string) string { return url.QueryEscape(jsonString(t, std("?>~"+std("?"+s)))) },
		"HTML of Latin-1": func(s string) string {
			return strings.NewReplacer("ä", "&auml;", "ö", "&ouml;", "/", "&sol;").Replace(html.EscapeString(s))
		},
		"JSON error in HTML": func(s string) string { return html.EscapeString(jsonString(t, s)) },
	}
}

// readable is what somebody can read in data.
func readable(data string) string {
	unquoted := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\/`, `/`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(data)
	unescaped, err := url.QueryUnescape(data)
	if err != nil {
		unescaped = ""
	}
	return strings.Join([]string{data, unquoted, unescaped, html.UnescapeString(data)}, "\n")
}

func TestEveryEncodingIsScrubbed(t *testing.T) {
	var long string
	for i := range 64 {
		long += fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i)}))
	}
	secrets := map[string]string{
		"letters":     "hunter2hunter3",
		"shortest":    "k3y!",
		"quotes":      `pa"ss\wo/rd<&>'`,
		"percents":    `100%41 "sure"`,
		"spaces":      "correct horse battery staple",
		"unicode":     "pässwörd-日本",
		"binary":      "\x00\x01\xfe\xff\x7f\x80",
		"long":        long,
		"base64 like": "aGVsbG8gd29ybGQ+/w==",
	}
	for kind, secret := range secrets {
		for how, encode := range encodings(t) {
			t.Run(kind+"/"+how, func(t *testing.T) {
				if kind == "binary" && strings.Contains(how, "JSON") && how != "JSON, all escaped" {
					t.Skip("JSON has no such strings")
				}
				if (kind == "unicode" || kind == "binary") && (how == "JSON, all escaped" || how == "HTML numbers") {
					t.Skip("these number characters, not bytes")
				}
				if len(secret) < minNestedBytes && (strings.Contains(how, "twice") && !strings.HasPrefix(how, "URL") || strings.Contains(how, " of ") || strings.Contains(how, " in ")) && how != "query in lower" && how != "JSON in JSON" && how != "query in JSON" {
					return // too few characters are sure: SECURITY.md says so
				}
				encoded := encode(secret)
				in := "before " + encoded + " after"
				out := string(newTestScrubber(secret).Scrub([]byte(in)))
				if !strings.Contains(out, "[scrubbed:cloud]") {
					t.Fatalf("%q came through as %q", in, out)
				}
				if !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") {
					t.Errorf("%q lost its surroundings: %q", in, out)
				}
				if strings.Contains(readable(out), secret) {
					t.Errorf("%q still holds the secret", out)
				}
				if rest := len(out) - len("before [scrubbed:cloud] after"); rest > len(encoded)-len(secret)+4 {
					t.Errorf("%d bytes of %q are left: %q", rest, encoded, out)
				}
			})
		}
	}
}

func TestNothingElseIsTouched(t *testing.T) {
	s := newTestScrubber("hunter2hunter3", "pa/ss word")
	for _, in := range []string{
		"", "h", "hunter2hunter", "unter2hunter3", `{"a":"b\n\u00e9","c":"%20&amp;"}`,
		"a\r\nb\nc", `\`, `\u`, `\u12`, `\ud800`, `\ud83d\ude00`, "%", "%4", "%zz", "&", "&#;", "&nope;", "aGVsbG8=",
	} {
		out := s.Scrub([]byte(in))
		if string(out) != in {
			t.Errorf("Scrub(%q) = %q", in, out)
		}
	}
}

func TestScrubLeavesItsArgument(t *testing.T) {
	in := []byte("x hunter2hunter3 y")
	out := newTestScrubber("hunter2hunter3").Scrub(in)
	if string(in) != "x hunter2hunter3 y" || string(out) != "x [scrubbed:cloud] y" {
		t.Errorf("in %q, out %q", in, out)
	}
}

// TestNeighboursInBase64 has characters that hold some bits of the secret.
func TestNeighboursInBase64(t *testing.T) {
	s := newTestScrubber("hunter2hunter3")
	for in, want := range map[string]string{
		"hunter2hunter3":      "[scrubbed:cloud]",
		"u:hunter2hunter3":    "dT[scrubbed:cloud]",
		"u:hunter2hunter3...": "dT[scrubbed:cloud]4uLg",
		"x.u:hunter2hunter3!": "eC51O[scrubbed:cloud]IQ",
		"hunter2hunter3!":     "[scrubbed:cloud]h",
	} {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(in))
		if got := string(s.Scrub([]byte(encoded))); got != want {
			t.Errorf("%s of %q is scrubbed to %q, want %q", encoded, in, got, want)
		}
	}
}

func TestOverlappingSecrets(t *testing.T) {
	s := newTestScrubber("abcdefgh", "efghijkl", "cdef")
	if got := string(s.Scrub([]byte("-abcdefghijkl-"))); got != "-[scrubbed:cloud]-" {
		t.Errorf("got %q", got)
	}
}

func TestMarksMakeNoSecret(t *testing.T) {
	secret := "x[scrubbed:cloud]y"
	got := newTestScrubber(secret, "middle").Scrub([]byte("xmiddley"))
	if bytes.Contains(got, []byte(secret)) {
		t.Errorf("got %q", got)
	}
}

func TestOldValuesAreScrubbedForAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	s := NewScrubber(clock)
	scrubbed := func(v string) bool { return string(s.Scrub([]byte(v))) != v }
	s.hold(owner{part: "o"}, "cloud", []byte("first-value"))
	s.hold(owner{part: "o"}, "cloud", []byte("second-value"))
	s.holdOnce("cloud", []byte("only-once"))
	for _, v := range []string{"first-value", "second-value", "only-once"} {
		if !scrubbed(v) {
			t.Errorf("%s is not scrubbed", v)
		}
	}
	clock.SetTime(start.Add(keepOld + time.Second))
	s.hold(owner{part: "other"}, "cloud", []byte("third-value"))
	if scrubbed("first-value") || scrubbed("only-once") || !scrubbed("second-value") || !scrubbed("third-value") {
		t.Error("an hour later, the replaced values alone must be forgotten")
	}
}

func TestOldValuesAreBounded(t *testing.T) {
	s := newTestScrubber("current-value")
	for i := range 3 * maxOld {
		s.holdOnce("cloud", fmt.Appendf(nil, "signature-%06d", i))
		s.hold(owner{part: "rotating"}, "cloud", fmt.Appendf(nil, "password-%06d", i))
	}
	if len(s.once.values) != maxOnce || len(s.old.values) != maxOld {
		t.Errorf("%d and %d old values are kept", len(s.once.values), len(s.old.values))
	}
	last := fmt.Sprintf("current-value signature-%06d password-%06d", 3*maxOld-1, 3*maxOld-2)
	if got := string(s.Scrub([]byte(last))); got != "[scrubbed:cloud] [scrubbed:cloud] [scrubbed:cloud]" {
		t.Errorf("got %q", got)
	}
	s.holdOnce("cloud", bytes.Repeat([]byte("x"), maxOldBytes+1))
	if s.once.bytes > maxOldBytes {
		t.Errorf("%d bytes of old values are kept", s.once.bytes)
	}
}

func BenchmarkScrub(b *testing.B) {
	values := manySecrets()
	s := newTestScrubber(values...)
	object := `{"id":"6c1d2c3e-9f0a-4f86-8a43-0b3c41a6d2aa","name":"node-17","addresses":["10.0.0.17","fd00::17"],"note":"a \"quoted\" word"},` + "\n"
	bodies := worstBodies()
	bodies["json"] = bytes.Repeat([]byte(object), maxBody/len(object))
	bodies["a hit each KB"] = bytes.Repeat([]byte(strings.Repeat("x", 1000)+values[7]), maxBody/1050)
	bodies["only secrets"] = bytes.Repeat([]byte(values[7]+" "), maxBody/(1+len(values[7])))
	b.Run("copying alone", func(b *testing.B) {
		b.SetBytes(maxBody)
		for b.Loop() {
			_ = bytes.Clone(bodies["json"])
		}
	})
	for name, body := range bodies {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				s.Scrub(body)
			}
		})
	}
}

func BenchmarkHoldOnce(b *testing.B) {
	s := newTestScrubber()
	for i := 0; b.Loop(); i++ {
		s.holdOnce("cloud", fmt.Appendf(nil, "%064d", i))
		s.Scrub([]byte("a short body"))
	}
}
