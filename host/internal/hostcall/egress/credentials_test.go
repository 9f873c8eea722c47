package egress_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func withCredential(name string) *abi.HttpRequest {
	return &abi.HttpRequest{Method: "POST", Url: cloudURL + "v1/", Body: []byte("body"), Credential: name, CredentialScope: "project"}
}

// TestCredentialsAreDeniedByDefault: Apply is not even asked.
func TestCredentialsAreDeniedByDefault(t *testing.T) {
	asked := credentials{apply: func(string, string, *http.Request, []byte) error {
		t.Error("the credential was asked for")
		return nil
	}}
	listed := grant(t, cloudURL+"v1/")
	listed.Credentials = []string{"token"}
	unlisted := grant(t, cloudURL)
	for name, test := range map[string]struct {
		credentials egress.Credentials
		request     *abi.HttpRequest
		text        string
	}{
		"none configured":        {nil, withCredential("token"), `no credential named "token" is configured`},
		"another":                {asked, withCredential("other"), `no grant for it lists the credential "other"; to allow it, add it to the credentials of the grant`},
		"another path":           {asked, &abi.HttpRequest{Method: "GET", Url: cloudURL + "v2/", Credential: "token"}, "no grant for it lists"},
		"not granted at all":     {asked, &abi.HttpRequest{Method: "GET", Url: "http://evil.example/", Credential: "token"}, "no grant allows it"},
		"a prefix of the name":   {asked, withCredential("toke"), "no grant for it lists"},
		"the name of upper case": {asked, withCredential("TOKEN"), "no grant for it lists"},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, egress.Options{Credentials: test.credentials}, unlisted, listed)
			wantCode(t, sendOne(t, client, test.request), abi.CodeDenied, test.text)
		})
	}
}

func TestCredentialIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %q %s %s", r.URL.RequestURI(), r.Header["Authorization"], r.Header.Get("Seen"), body)
		})
		options := egress.Options{Credentials: credentials{apply: func(name, scope string, req *http.Request, body []byte) error {
			req.Header.Set("Seen", fmt.Sprint(name, " ", scope, " ", req.Method, " ", req.URL, " ", string(body)))
			req.Header.Set("Authorization", "Bearer x")
			req.URL.RawQuery = "key=y"
			return nil
		}}}
		client := cloud.client(t, options, cloudURL)
		r := withCredential("token")
		r.Headers = []*abi.HttpHeader{{Name: "AUTHORIZATION", Value: "forged"}, {Name: "authorization", Value: "forged"}}
		for range 2 { // the query is not added to twice
			want := `/v1/?key=y ["Bearer x"] token project POST http://cloud.example/v1/ body body`
			if got := string(responseOf(sendOne(t, client, r)).Body); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		r.Credential = ""
		if got := string(responseOf(sendOne(t, client, r)).Body); !strings.Contains(got, `/v1/ ["forged" "forged"]`) {
			t.Errorf("without a credential: %s", got)
		}
	})
}

func TestCredentialMustNotChangeTheRequest(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"method":         func(r *http.Request) { r.Method = "DELETE" },
		"host":           func(r *http.Request) { r.URL.Host = "evil.example" },
		"scheme":         func(r *http.Request) { r.URL.Scheme = "https" },
		"path":           func(r *http.Request) { r.URL.Path = "/admin" },
		"raw path":       func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/v1/a/", "/v1%2fa/" },
		"opaque":         func(r *http.Request) { r.URL.Opaque = "//evil.example/" },
		"user":           func(r *http.Request) { r.URL, _ = r.URL.Parse("http://u:p@cloud.example/v1/") },
		"Host":           func(r *http.Request) { r.Host = "evil.example" },
		"Host header":    func(r *http.Request) { r.Header.Set("Host", "evil.example") },
		"connection":     func(r *http.Request) { r.Header.Set("Connection", "upgrade") },
		"length":         func(r *http.Request) { r.Header.Set("Content-Length", "1") },
		"query, newline": func(r *http.Request) { r.URL.RawQuery = "a\r\nb" },
		"query, huge":    func(r *http.Request) { r.URL.RawQuery = strings.Repeat("x", 17000) },
		"query, method":  func(r *http.Request) { r.URL.RawQuery = "a=b&_method=DELETE" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t, status(200))
				client := cloud.client(t, egress.Options{Credentials: credentials{apply: func(_, _ string, r *http.Request, _ []byte) error {
					change(r)
					return nil
				}}}, cloudURL)
				wantCode(t, sendOne(t, client, withCredential("token")), abi.CodeInternal, `credential "token"`)
				if cloud.dials.Load() != 0 {
					t.Error("something was sent")
				}
			})
		})
	}
}

// TestCredentialsTellNoLength: whether the longest URL fits does not say how long
// the secret is that is added to it.
func TestCredentialsTellNoLength(t *testing.T) {
	for _, length := range []int{1, 100, 4000} {
		synctest.Test(t, func(t *testing.T) {
			client := newCloud(t, status(200)).client(t, egress.Options{Credentials: credentials{apply: func(_, _ string, r *http.Request, _ []byte) error {
				r.URL.RawQuery += "&key=" + strings.Repeat("s", length)
				return nil
			}}}, cloudURL)
			r := withCredential("token")
			r.Url += "?a="
			r.Url += strings.Repeat("x", 8<<10-len(r.Url))
			if got := sendOne(t, client, r); got.Code != 0 {
				t.Errorf("a secret of %d bytes: %s", length, show(got))
			}
		})
	}
}

func TestErrorsOfCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want abi.Code
	}{
		"known":   {fmt.Errorf("wrapped: %w", &abi.Error{Code: abi.CodeUnauthenticated, Message: "the Secret has s3cret-token and no key"}), abi.CodeUnauthenticated},
		"unknown": {errors.New("s3cret-token is no key"), abi.CodeInternal},
		"no code": {&abi.Error{Message: "s3cret-token"}, abi.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			fake := withToken()
			fake.apply = func(string, string, *http.Request, []byte) error { return test.err }
			g := grant(t, cloudURL)
			g.Credentials = []string{"token"}
			wantCode(t, sendOne(t, newClient(t, egress.Options{Credentials: fake}, g), withCredential("token")), test.want, "[removed]")
		})
	}
}

func TestRejectedCredentialIsRenewedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		renews bool
		works  int32 // from which request on
		want   int32
		sent   int32
	}{
		"a new token works":    {true, 2, 200, 2},
		"a new token does not": {true, 9, 401, 2},
		"there is no new one":  {false, 2, 401, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var applied, rejected []string
				fake := credentials{
					apply: func(name, scope string, _ *http.Request, _ []byte) error {
						applied = append(applied, name+" "+scope)
						return nil
					},
					rejected: func(name, scope string) bool {
						rejected = append(rejected, name+" "+scope)
						return test.renews
					},
				}
				seen := &observer{}
				cloud := newCloud(t, first(int(test.works)-1, status(401)))
				client := cloud.client(t, egress.Options{Credentials: fake, Observer: seen}, cloudURL)
				got := sendOne(t, client, withCredential("token"))
				if responseOf(got).Status != test.want || cloud.requests.Load() != test.sent || len(applied) != int(test.sent) {
					t.Errorf("%v after %d requests, applied %q", show(got), cloud.requests.Load(), applied)
				}
				if !slices.Equal(rejected, []string{"token project"}) {
					t.Errorf("rejected %q", rejected)
				}
				if n := seen.count("cloud.example:80 retried 401"); n != int(test.sent)-1 {
					t.Errorf("observed %q", seen.all())
				}
			})
		})
	}
}

// TestRejectedIsNotAskedWithoutACredential: a 401 of the provider's own token
// says nothing about the host's.
func TestRejectedIsNotAskedWithoutACredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := credentials{rejected: func(string, string) bool {
			t.Error("asked")
			return false
		}}
		client := newCloud(t, status(401)).client(t, egress.Options{Credentials: fake}, cloudURL)
		sendOne(t, client, get(cloudURL))
	})
}

func gzipped(data ...string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for _, d := range data {
		_, _ = io.WriteString(z, d)
	}
	_ = z.Close()
	return out.Bytes()
}

// TestNothingComesBackWithASecret: the server reflects what it got.
func TestNothingComesBackWithASecret(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		headers []*abi.HttpHeader
		want    abi.Code
		text    string
	}{
		"body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "got "+r.Header.Get("X-Token"))
		}, nil, abi.CodeOK, "got [removed]"},
		"chunks": {func(w http.ResponseWriter, r *http.Request) {
			for _, c := range r.Header.Get("X-Token") {
				_, _ = io.WriteString(w, string(c))
				_ = http.NewResponseController(w).Flush()
			}
		}, nil, abi.CodeOK, "[removed]"},
		"gzip": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped("got ", r.Header.Get("X-Token")))
		}, nil, abi.CodeOK, "got [removed]"},
		"gzip that the guest asked for": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(r.Header.Get("Accept-Encoding"), " ", r.Header.Get("X-Token")))
		}, []*abi.HttpHeader{{Name: "accept-encoding", Value: "br, gzip"}}, abi.CodeOK, "gzip [removed]"},
		"gzip twice": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write(gzipped(string(gzipped(r.Header.Get("X-Token")))))
		}, nil, abi.CodeDenied, "cannot be searched for secrets"},
		"deflate": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "deflate")
			_, _ = io.WriteString(w, "x")
		}, nil, abi.CodeDenied, "cannot be searched for secrets"},
		"part": {status(200), []*abi.HttpHeader{{Name: "range", Value: "bytes=0-3"}}, abi.CodeInvalid, "whole answers"},
		"header": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Echo", r.Header.Get("X-Token"))
			w.Header().Set(r.Header.Get("X-Token"), "")
		}, nil, abi.CodeOK, ""},
		"error": {func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+r.Header.Get("X-Token")+"\r\n\r\n")
				_ = conn.Close()
			}
		}, nil, abi.CodeUnavailable, "[removed]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := withToken()
				fake.scrub = func(data []byte) []byte {
					return []byte(strings.NewReplacer("s3cret-token", "[removed]", "S3cret-Token", "[removed]").Replace(string(data)))
				}
				client := newCloud(t, test.handler).client(t, egress.Options{Credentials: fake}, cloudURL)
				r := withCredential("token")
				r.Headers = test.headers
				got := sendOne(t, client, r)
				wantCode(t, got, test.want, "")
				body := string(responseOf(got).Body)
				if all := show(got); strings.Contains(strings.ToLower(all+body), "s3cret") || !strings.Contains(body+errorOf(got).Message, test.text) {
					t.Errorf("%s with %q, want %q", all, body, test.text)
				}
				if length := header(got, "Content-Length"); length != "" && length != fmt.Sprint(len(body)) {
					t.Errorf("Content-Length %s of %d bytes", length, len(body))
				}
			})
		})
	}
}

func TestScrubbedBodiesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := credentials{scrub: func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("x"), make([]byte, 1000)) }}
		client := newCloud(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		}).client(t, egress.Options{Credentials: fake, MaxBatchBytes: 10_000}, cloudURL)
		wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeTooLarge, "")
	})
}

// TestCredentialsMaySendRequests: not one turn is held while they are applied.
func TestCredentialsMaySendRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(200))
		var client *egress.Client
		fake := credentials{apply: func(string, string, *http.Request, []byte) error {
			if got := sendOne(t, client, get(cloudURL)); got.Code != 0 {
				return errors.New(errorOf(got).Message)
			}
			return nil
		}}
		client = cloud.client(t, egress.Options{Credentials: fake, MaxConcurrent: 1}, cloudURL)
		if got := sendOne(t, client, withCredential("token")); got.Code != 0 {
			t.Error(show(got))
		}
	})
}
