package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// guessed are requests that nothing is sent of, with a guess of the secret in
// every part that an error could repeat.
func guessed(guess string) map[string]*abi.HttpRequest {
	const base = "http://cloud.example/v1/"
	with := func(change func(*abi.HttpRequest)) *abi.HttpRequest {
		r := &abi.HttpRequest{Method: "GET", Url: base + guess, Credential: "token"}
		change(r)
		return r
	}
	header := func(name, value string) *abi.HttpRequest {
		return with(func(r *abi.HttpRequest) { r.Headers = []*abi.HttpHeader{{Name: name, Value: value}} })
	}
	return map[string]*abi.HttpRequest{
		"host":             with(func(r *abi.HttpRequest) { r.Url = "http://" + guess + ".example.com/" }),
		"host, not valid":  with(func(r *abi.HttpRequest) { r.Url = "http://" + guess + ".0x1/" }),
		"scheme":           with(func(r *abi.HttpRequest) { r.Url = "x" + guess + "://cloud.example/" }),
		"path":             with(func(r *abi.HttpRequest) { r.Url = "http://cloud.example/v2/" + guess }),
		"path, escaped":    with(func(r *abi.HttpRequest) { r.Url = fmt.Sprintf("http://cloud.example/v2/%%%02x%s", guess[0], guess[1:]) }),
		"port":             with(func(r *abi.HttpRequest) { r.Url = "http://cloud.example:4711/" + guess }),
		"query":            with(func(r *abi.HttpRequest) { r.Url = base + "?_method=" + guess }),
		"method":           with(func(r *abi.HttpRequest) { r.Method = "X" + strings.ToUpper(guess) }),
		"header's name":    header("X_Forwarded-"+guess, "x"),
		"header's value":   header("X-A", guess+"\n"),
		"not UTF-8 header": header("X-"+guess+"\xff", "x"),
		"credential":       with(func(r *abi.HttpRequest) { r.Credential = guess }),
		"scope":            with(func(r *abi.HttpRequest) { r.CredentialScope = strings.Repeat(guess, 100) }),
		"body": with(func(r *abi.HttpRequest) {
			r.Method, r.Url, r.Body = "PUT", "http://other.example/"+guess, []byte(guess)
		}),
		"no connection": with(func(*abi.HttpRequest) {}),
		"no such name":  with(func(r *abi.HttpRequest) { r.Url = "http://" + guess + ".wild.example/" }),
	}
}

// secretIs are credentials whose secret is that value.
func secretIs(value string) credentials {
	return credentials{scrub: func(data []byte) []byte {
		return []byte(strings.NewReplacer(value, "[scrubbed:token]", strings.ToUpper(value), "[scrubbed:token]").Replace(string(data)))
	}}
}

// TestRefusalsAreTheSameWhateverTheSecret: whoever guesses right is told what
// whoever guesses wrong is told.
func TestRefusalsAreTheSameWhateverTheSecret(t *testing.T) {
	unconnected := func(secret string) *egress.Client {
		own, wild := grant(t, "http://cloud.example/v1/"), grant(t, "http://*.wild.example/")
		own.Credentials, wild.Credentials = []string{"token"}, []string{"token"}
		client := newClient(t, egress.Options{Credentials: secretIs(secret), MaxRetries: -1, BreakerFailures: 1, RequestsPerSecond: 1e6, Burst: 1e6}, own, wild)
		egress.ConnectBy(client, func(_ context.Context, address string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		})
		return client
	}
	const guess = "gue551"
	right, wrong := unconnected(guess), unconnected("another")
	for range 2 { // the second time the breaker is open
		for part, request := range guessed(guess) {
			told, other := sendOne(t, right, request), sendOne(t, wrong, request)
			if told.Code == 0 || !reflect.DeepEqual(told, other) {
				t.Errorf("%s: who guesses right is told\n%s, who guesses wrong\n%s", part, show(told), show(other))
			}
		}
	}
}

// TestRedirectsThatAreRefusedRepeatTheProvider: the words of the provider stay as
// they are, those of the server are scrubbed.
func TestRedirectsThatAreRefusedRepeatTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Query().Get("to"))
			w.WriteHeader(http.StatusFound)
		})
		client := cloud.client(t, egress.Options{Credentials: secretIs("gue551")}, cloudURL)
		for to, want := range map[string]string{
			"http://other.example/x":      "redirected from http://cloud.example:80/gue551: GET http://other.example:80/x: no grant allows it",
			"http://other.example/gue551": "http://cloud.example:80/gue551: it redirects elsewhere, with a secret in the URL",
			"/gue551/..":                  "redirected from http://cloud.example:80/gue551: ",
		} {
			got := sendOne(t, client, &abi.HttpRequest{Method: "GET", Url: cloudURL + "gue551?to=" + to, FollowRedirects: 1})
			if message := errorOf(got).Message; !strings.HasPrefix(message, want) && got.Code != 0 || strings.Count(message, "gue551") > 1 {
				t.Errorf("%s: %s, want %q", to, show(got), want)
			}
		}
	})
}

// TestRefusedRequestsCount: they are of the same rate as those that are sent.
func TestRefusedRequestsCount(t *testing.T) {
	for name, test := range map[string]struct {
		request *abi.HttpRequest
		inForce func() *egress.Client
		want    abi.Code
	}{
		"refused":         {get("http://other.example/"), nil, abi.CodeDenied},
		"not valid":       {get("http://cloud.example/../"), nil, abi.CodeInvalid},
		"withdrawn":       {get(cloudURL), func() *egress.Client { return nil }, abi.CodeDenied},
		"no credential":   {withCredential("token"), nil, abi.CodeUnauthenticated},
		"an open breaker": {get(cloudURL + "down"), nil, abi.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &observer{}
				fake := credentials{apply: func(string, string, *http.Request, []byte) error {
					return &abi.Error{Code: abi.CodeUnauthenticated, Message: "the Secret has no such key"}
				}}
				cloud := newCloud(t, status(200))
				cloud.refuse = func(string) error { return errors.New("refused") }
				client := cloud.client(t, egress.Options{
					RequestsPerSecond: 10, Burst: 20, MaxRetries: -1, BreakerFailures: 1, BreakerOpen: time.Hour, Credentials: fake, Observer: seen, InForce: test.inForce,
				}, cloudURL)
				counts := map[abi.Code]int{}
				for range 10_000 {
					got := sendOne(t, client, test.request)
					counts[abi.Code(got.Code)]++
					if abi.Code(got.Code) == abi.CodeThrottled && (errorOf(got).RetryAfterMs != 101 || strings.Contains(errorOf(got).Message, "example")) {
						t.Fatal(show(got))
					}
				}
				if counts[test.want] != 20 || counts[abi.CodeThrottled] != 9980 {
					t.Errorf("of 10000 requests: %v", counts)
				}
				if name == "refused" && (seen.count("refused denied") != 20 || seen.count("refused throttled") != 9980) {
					t.Error("they are not counted")
				}
			})
		})
	}
}

// TestValidatorsOfScrubbedBodies: a hash of what was there lets the secret be
// guessed without anybody noticing.
func TestValidatorsOfScrubbedBodies(t *testing.T) {
	for secret, want := range map[string]string{"gue551": "", "another": "x"} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, func(w http.ResponseWriter, _ *http.Request) {
				for _, name := range []string{"ETag", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "X-Amz-Checksum-Sha256", "X-Goog-Hash"} {
					w.Header().Set(name, "x")
				}
				_, _ = w.Write([]byte("your key is gue551"))
			})
			client := cloud.client(t, egress.Options{Credentials: secretIs(secret)}, cloudURL)
			got := sendOne(t, client, get(cloudURL))
			for _, name := range []string{"Etag", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "X-Amz-Checksum-Sha256", "X-Goog-Hash"} {
				if value := header(got, name); value != want {
					t.Errorf("%s: %q, want %q: %s", name, value, want, show(got))
				}
			}
		})
	}
}
