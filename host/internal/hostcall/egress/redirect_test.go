package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// redirector sends /STATUS?to=URL there and tells of any other request what it
// got.
func redirector(w http.ResponseWriter, r *http.Request) {
	var code int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err == nil {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(code)
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s%s %q auth=%s cookie=%s type=%s x=%s token=%s", r.Method, r.Host, r.URL.RequestURI(), body,
		r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("Content-Type"), r.Header.Get("X-A"), r.Header.Get("X-Token"))
}

func withToken() credentials {
	return credentials{
		apply: func(name, _ string, req *http.Request, _ []byte) error {
			req.Header.Set("X-Token", "s3cret-"+name)
			return nil
		},
		scrub: func(data []byte) []byte {
			return []byte(strings.ReplaceAll(string(data), "s3cret-token", "[removed]"))
		},
	}
}

func TestRedirects(t *testing.T) {
	const here, other = "http://cloud.example/end", "http://other.example/end"
	all := `"body" auth=me cookie=c type=text/x x=1 token=[removed]`
	for name, test := range map[string]struct {
		method, url string
		want        string
	}{
		"301 POST":       {"POST", "/301?to=/end", `GET cloud.example/end "" auth=me cookie=c type= x=1 token=[removed]`},
		"302 POST":       {"POST", "/302?to=/end", `GET cloud.example/end "" auth=me cookie=c type= x=1 token=[removed]`},
		"302 PUT":        {"PUT", "/302?to=/end", "PUT cloud.example/end " + all},
		"303 PUT":        {"PUT", "/303?to=/end", `GET cloud.example/end "" auth=me cookie=c type= x=1 token=[removed]`},
		"307 POST":       {"POST", "/307?to=/end", "POST cloud.example/end " + all},
		"308 POST":       {"POST", "/308?to=" + here, "POST cloud.example/end " + all},
		"two":            {"GET", "/302?to=/302?to=/end", "GET cloud.example/end " + all},
		"relative":       {"GET", "/302?to=end%3Fa=b", "GET cloud.example/end?a=b " + all},
		"fragment":       {"GET", "/302?to=/end%23part", "GET cloud.example/end " + all},
		"other host":     {"POST", "/307?to=" + other, `POST other.example/end "body" auth= cookie= type=text/x x=1 token=`},
		"there and back": {"GET", "/302?to=http://other.example/302?to=" + here, `GET cloud.example/end "body" auth= cookie= type=text/x x=1 token=`},
		"other port":     {"GET", "/302?to=http://cloud.example:81/end", `GET cloud.example:81/end "body" auth= cookie= type=text/x x=1 token=`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newCloud(t, redirector).client(t, egress.Options{Credentials: withToken()}, cloudURL, "http://other.example/", "http://cloud.example:81/")
				got := sendOne(t, client, following(test.method, "http://cloud.example"+test.url, 10))
				if body := string(responseOf(got).Body); body != test.want {
					t.Errorf("%v\ngot  %s\nwant %s", got.Error, body, test.want)
				}
			})
		})
	}
}

func following(method, url string, n uint32) *abi.HttpRequest {
	return &abi.HttpRequest{Method: method, Url: url, Body: []byte("body"), FollowRedirects: n, Credential: "token", Headers: []*abi.HttpHeader{
		{Name: "authorization", Value: "me"}, {Name: "Cookie", Value: "c"}, {Name: "Content-Type", Value: "text/x"}, {Name: "X-A", Value: "1"}}}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		to   string
		want abi.Code
		text string
	}{
		"not granted":         {"http://evil.example/", abi.CodeDenied, "redirected from http://cloud.example:80/302: GET http://evil.example:80/: no grant"},
		"path not granted":    {"/admin", abi.CodeDenied, "no grant"},
		"userinfo":            {"http://u:p@cloud.example/end", abi.CodeDenied, "user name or password"},
		"other scheme":        {"file:///etc/passwd", abi.CodeDenied, "scheme"},
		"metadata":            {"http://169.254.169.254/latest/", abi.CodeDenied, "no grant"},
		"dots":                {"/end/%252e%252e/admin", abi.CodeDenied, "segment"},
		"no URL":              {"http://[", abi.CodeUnavailable, "no valid URL"},
		"secret for another":  {"http://other.example/end?key=s3cret-token", abi.CodeDenied, "with a secret"},
		"secret in the host":  {"http://s3cret-token.example/", abi.CodeDenied, "with a secret"},
		"secret in the path":  {"/s3cret-token/" + strings.Repeat("x", 300), abi.CodeDenied, "/[removed]/"},
		"long secret in path": {"/" + strings.Repeat("x", 226) + "s3cret-token", abi.CodeDenied, "no grant"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", test.to)
					w.WriteHeader(http.StatusFound)
				})
				client := cloud.client(t, egress.Options{Credentials: withToken()}, "http://cloud.example/302", "http://cloud.example/end", "http://other.example/end")
				got := sendOne(t, client, following("GET", "http://cloud.example/302", 3))
				wantCode(t, got, test.want, test.text)
				if strings.Contains(errorOf(got).Message, "s3c") || cloud.requests.Load() != 1 {
					t.Errorf("%d requests, %s", cloud.requests.Load(), errorOf(got).Message)
				}
			})
		})
	}
}

// TestNoRedirectFromTLS: both places are granted.
func TestNoRedirectFromTLS(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	server := serveTLS(t, nil)
	server.Config.Handler = http.RedirectHandler(plain.URL, http.StatusFound)
	client := newClient(t, egress.Options{}, server.granted(t, "/"), grant(t, plain.URL))
	wantCode(t, sendOne(t, client, following("GET", server.URL, 1)), abi.CodeDenied, "no credential")
	wantCode(t, sendOne(t, client, &abi.HttpRequest{Method: "GET", Url: server.URL, FollowRedirects: 1}), abi.CodeDenied, "its redirect from https to http://127.0.0.1")
}

func TestRedirectsEnd(t *testing.T) {
	for _, n := range []uint32{0, 1, 10} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
			got := sendOne(t, cloud.client(t, egress.Options{MaxBatchBytes: 1000}, cloudURL), &abi.HttpRequest{Method: "GET", Url: cloudURL, FollowRedirects: n})
			if responseOf(got).Status != http.StatusFound || header(got, "Location") != "/again" || cloud.requests.Load() != int32(n)+1 {
				t.Errorf("%v after %d requests, want the redirect after %d", show(got), cloud.requests.Load(), n+1)
			}
		})
	}
	client := newClient(t, egress.Options{}, grant(t, cloudURL))
	wantCode(t, sendOne(t, client, &abi.HttpRequest{Method: "GET", Url: cloudURL, FollowRedirects: 11}), abi.CodeInvalid, "the limit is 10")
}

func TestARedirectWithoutAPlaceIsAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newCloud(t, status(302)).client(t, egress.Options{}, cloudURL)
		if got := sendOne(t, client, following("GET", cloudURL, 3)); responseOf(got).Status != 0 {
			t.Error(show(got)) // the credential is not configured
		}
		if got := sendOne(t, client, &abi.HttpRequest{Method: "GET", Url: cloudURL, FollowRedirects: 3}); responseOf(got).Status != 302 {
			t.Error(show(got))
		}
	})
}
