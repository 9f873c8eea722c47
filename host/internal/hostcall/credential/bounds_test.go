package credential

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

const maxBody = 8 << 20

// worstBodies are what costs most for each kind of escape, of 8 MiB.
func worstBodies() map[string][]byte {
	fill := func(part string) []byte { return bytes.Repeat([]byte(part), maxBody/len(part)) }
	return map[string][]byte{
		"no escapes":    fill("0123456789abcdefghijklmnopqrstuvwxyz-_., ABC"),
		"percents":      fill(`%5c`),
		"backslashes":   fill(`\`),
		"JSON escapes":  fill(`\u0061`),
		"URL, 5 times":  fill(`%2525252541`),
		"HTML names":    fill(`&lt;&uuml;`),
		"HTML numbers":  fill(`&#x26;`),
		"HTML, no name": fill(`&aaaaaaa;`),
		"no escape":     fill(`&`),
		"line breaks":   fill("a\n"),
		"one, 5 times":  append([]byte("%2525252541"), fill("a")...),
		"all of them":   fill(`\u0026#x25;36\\%5cn&amp;#92;n%25255c`),
	}
}

// manySecrets are 200 tokens that begin and end alike.
func manySecrets() (out []string) {
	for i := range 200 {
		out = append(out, fmt.Sprintf("%032d-%d-some-token", i*7919, i))
	}
	return out
}

// TestScrubbingTakesLittleMoreThanReading compares with a loop over the bytes, at
// the same time on the same machine.
func TestScrubbingTakesLittleMoreThanReading(t *testing.T) {
	if os.Getenv("BENCH_REPORT") == "" {
		t.Skip("a figure: make bench asserts it")
	}
	s := newTestScrubber(manySecrets()...)
	s.Scrub([]byte("x")) // makes the index
	best := func(do func()) time.Duration {
		least := time.Hour
		for range 5 {
			start := time.Now()
			do()
			least = min(least, time.Since(start))
		}
		return least
	}
	for name, body := range worstBodies() {
		sum := byte(0)
		reading := best(func() {
			for _, c := range body {
				sum = sum<<1 ^ c
			}
		})
		scrubbing := best(func() { s.Scrub(body) })
		t.Logf("%-14s %8v, %5.1f times reading", name, scrubbing.Round(time.Millisecond), float64(scrubbing)/float64(reading))
		if scrubbing > 60*reading+time.Duration(sum&1) {
			t.Errorf("%s: 8 MiB take %v, a loop over the bytes %v", name, scrubbing, reading)
		}
	}
}

func TestScrubbingEndsWithItsContext(t *testing.T) {
	s := newTestScrubber("hunter2hunter3")
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the time is over")
	cancel(reason)
	if out, err := s.ScrubContext(ctx, []byte("hunter2hunter3")); !errors.Is(err, reason) || out != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// honestAnswers are megabytes of what clouds answer, with nothing secret.
func honestAnswers(t testing.TB, random *rand.Rand) map[string][]byte {
	t.Helper()
	noise := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(random.Uint32())
		}
		return out
	}
	var servers []map[string]any
	for i := range 4000 {
		servers = append(servers, map[string]any{
			"id": hex.EncodeToString(noise(16)), "name": fmt.Sprintf("kubernetes-node-%d", i), "created": "2026-11-21T12:00:00Z",
			"addresses": []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250), "fd00::" + hex.EncodeToString(noise(2))},
			"user_data": base64.StdEncoding.EncodeToString(noise(300)), "fingerprint": strings.ToUpper(hex.EncodeToString(noise(20))),
			"links": "https://api.example.com/v2.1/servers?marker=" + url.QueryEscape(string(noise(12))), "note": "a \"quoted\" <b>word</b> & more\n",
		})
	}
	list, err := json.Marshal(servers)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"list":           list,
		"list in JSON":   []byte(jsonString(t, string(list))),
		"list in HTML":   []byte(html.EscapeString(string(list))),
		"list in URL":    []byte(url.QueryEscape(string(list))),
		"base64":         []byte(base64.StdEncoding.EncodeToString(noise(4 << 20))),
		"base64 of list": []byte(base64.URLEncoding.EncodeToString(list)),
		"hex":            []byte(hex.EncodeToString(noise(3 << 20))),
		"binary":         noise(6 << 20),
	}
}

// TestHonestAnswersStay: no encoding that is looked for is so common that an
// answer without a secret is changed.
func TestHonestAnswersStay(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 5))
	var secrets []string
	for i := range 100 {
		token := make([]byte, 8+i/2)
		for j := range token {
			token[j] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+/%&\\"[random.IntN(69)]
		}
		secrets = append(secrets, string(token))
	}
	s := newTestScrubber(secrets...)
	for name, answer := range honestAnswers(t, random) {
		if out := s.Scrub(answer); !bytes.Equal(out, answer) {
			at := bytes.Index(out, []byte("[scrubbed:"))
			t.Errorf("%s: scrubbed at %d: %q", name, at, out[max(0, at-20):min(len(out), at+40)])
		}
	}
}

// TestOrdinarySecrets are what administrators have, in an answer that repeats
// them beside what is like them.
func TestOrdinarySecrets(t *testing.T) {
	for secret, like := range map[string]string{
		"s3cr3t":                          "s3cr3",
		"Tr0ub4dor&3":                     "Tr0ub4dor&amp;4",
		"^a.*b+c?(d|e)[f]{2}$":            "aaabbccdff",
		`C:\new\table "x"`:                `C:\new\tables`,
		"%2e%2e%41":                       "..B",
		"&lt;&#65;":                       "<B",
		"-----BEGIN KEY-----\nMIIE\nvQIB": "-----BEGIN KEY-----\nMIIE\nXXXX",
		"日本語のパスワード":                       "日本語のパスワー",
		"[scrubbed:":                      "[scrub",
	} {
		s := newTestScrubber(secret)
		if !scrubbable("cloud", []byte(secret)) {
			continue // refused when the Secret is read
		}
		for how, encode := range map[string]func(string) string{
			"plain": func(s string) string { return s }, "JSON": func(s string) string { return jsonString(t, s) },
			"URL": url.QueryEscape, "HTML": html.EscapeString, "base64": std, "hex": func(s string) string { return hex.EncodeToString([]byte(s)) },
		} {
			in := "{" + encode(like) + "} {" + encode(secret) + "}"
			out := string(s.Scrub([]byte(in)))
			if !strings.HasPrefix(out, "{"+encode(like)+"} {") || strings.Contains(out, encode(secret)) {
				t.Errorf("%s in %s: %q becomes %q", secret, how, in, out)
			}
		}
	}
}
