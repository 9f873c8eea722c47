package credential

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const clientSecret = "cl1ent s3cret/+"

// tokenServer is an authorization server with one client.
type tokenServer struct {
	url     string
	issued  atomic.Int64
	answer  atomic.Pointer[http.HandlerFunc] // instead of a token
	secrets *fakeSecrets
	inBody  bool
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{secrets: newFakeSecrets("client_id", "ccm", "client_secret", clientSecret)}
	s.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if answer := s.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		if r.URL.Path != "/token" || r.PostFormValue("grant_type") != "client_credentials" ||
			r.PostFormValue("scope") != "read write" || r.PostFormValue("audience") != "cloud" {
			t.Errorf("not a token request: %s %v", r.URL, r.PostForm)
		}
		id, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
		if !s.inBody {
			user, password, _ := r.BasicAuth()
			id, _ = url.QueryUnescape(user)
			secret, _ = url.QueryUnescape(password)
		}
		if id != "ccm" || !strings.HasPrefix(secret, clientSecret) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"no client has %s"}`, secret)
			return
		}
		reply(t, w, map[string]any{"access_token": fmt.Sprintf("token-%04d-%s", s.issued.Add(1), id), "token_type": "bearer", "expires_in": 600})
	})
	return s
}

func (s *tokenServer) spec() Spec {
	return Spec{OAuth2: &OAuth2ClientCredentials{
		TokenURL: s.url + "/token", Scopes: []string{"read", "write"}, Params: url.Values{"audience": {"cloud"}},
		InBody: s.inBody, Transport: http.DefaultTransport,
	}}
}

func reply(t *testing.T, w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		t.Error(err)
	}
}

func TestOAuth2(t *testing.T) {
	for _, inBody := range []bool{false, true} {
		t.Run(fmt.Sprintf("inBody=%v", inBody), func(t *testing.T) {
			server := newTokenServer(t)
			server.inBody = inBody
			api, last := record(t)
			set, clock := newTestSet(t, server.secrets, server.spec())
			authorization := func() string {
				t.Helper()
				send(t, set, "", "GET", api, "")
				return last.Header.Get("Authorization")
			}
			for _, step := range []struct {
				what string
				do   func()
				want string
			}{
				{"first", func() {}, "Bearer token-0001-ccm"},
				{"cached", func() {}, "Bearer token-0001-ccm"},
				{"before the margin", func() { clock.SetTime(start.Add(539 * time.Second)) }, "Bearer token-0001-ccm"},
				{"renewed before it expires", func() { clock.SetTime(start.Add(541 * time.Second)) }, "Bearer token-0002-ccm"},
				{"rejected when fresh", func() {
					if !set.Rejected(t.Context(), "cloud", "") {
						t.Error("the fresh token may be newer than the rejected one: try again")
					}
				}, "Bearer token-0002-ccm"},
				{"rejected later", func() {
					clock.SetTime(start.Add(560 * time.Second))
					if !set.Rejected(t.Context(), "cloud", "") {
						t.Error("a new token may help")
					}
				}, "Bearer token-0003-ccm"},
				{"the Secret rotated", func() {
					server.secrets.set("client_id", "ccm", "client_secret", clientSecret+"2")
				}, "Bearer token-0004-ccm"},
			} {
				step.do()
				if got := authorization(); got != step.want {
					t.Fatalf("%s: %q, want %q", step.what, got, step.want)
				}
			}
			for _, secret := range []string{"token-0001-ccm", "token-0004-ccm", clientSecret, clientSecret + "2",
				base64.StdEncoding.EncodeToString([]byte("ccm:" + url.QueryEscape(clientSecret)))} {
				if got := string(set.Scrub([]byte(secret))); got != "[scrubbed:cloud]" {
					t.Errorf("%q is scrubbed to %q", secret, got)
				}
			}
		})
	}
}

func TestOAuth2OneTokenForAll(t *testing.T) {
	server := newTokenServer(t)
	api, _ := record(t)
	set, _ := newTestSet(t, server.secrets, server.spec())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api, nil)
			if err == nil {
				err = apply(t.Context(), set, "cloud", "", req)
			}
			if err != nil || req.Header.Get("Authorization") != "Bearer token-0001-ccm" {
				t.Errorf("%v, %v", req.Header, err)
			}
		})
	}
	wg.Wait()
	if n := server.issued.Load(); n != 1 {
		t.Errorf("%d tokens were issued", n)
	}
}

func TestOAuth2Failures(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		code   abi.Code
		says   string
	}{
		"a wrong secret, repeated": {func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"not %s:%s, %s"}`, user, password, r.Header.Get("Authorization"))
		}, abi.CodeUnauthenticated, "the token endpoint answered 401: invalid_client"},
		"throttled": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, abi.CodeThrottled, "429"},
		"broken":    {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }, abi.CodeUnavailable, "502"},
		"a redirect is not followed": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the client's secret went elsewhere")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, abi.CodeUnavailable, "307"},
		"no token": {func(w http.ResponseWriter, r *http.Request) { reply(t, w, map[string]any{"token_type": "bearer"}) }, abi.CodeUnavailable, "access_token"},
		"another type": {func(w http.ResponseWriter, r *http.Request) {
			reply(t, w, map[string]any{"access_token": "0123456789", "token_type": "mac"})
		}, abi.CodeUnavailable, `type "MAC"`},
		"a huge token": {func(w http.ResponseWriter, r *http.Request) {
			reply(t, w, map[string]any{"access_token": strings.Repeat("x", 17<<10), "token_type": "bearer"})
		}, abi.CodeUnavailable, "a token of 17408 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newTokenServer(t)
			asked := 0
			counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++; test.answer(w, r) })
			server.answer.Store(&counting)
			api, last := record(t)
			set, clock := newTestSet(t, server.secrets, server.spec())
			for range 2 {
				_, err := trySend(t, set, "", "GET", api, "")
				refused(t, err, test.code, "credential cloud", test.says)
				if strings.Contains(readable(err.Error()), clientSecret) || strings.Contains(err.Error(), "Y2NtOmNs") {
					t.Errorf("%q holds the secret", err)
				}
			}
			if asked != 1 {
				t.Errorf("the endpoint was asked %d times, it must be left in peace for a while", asked)
			}
			server.answer.Store(nil)
			clock.SetTime(start.Add(failureRest))
			send(t, set, "", "GET", api, "")
			if got := last.Header.Get("Authorization"); got != "Bearer token-0001-ccm" {
				t.Errorf("later on: %q", got)
			}
		})
	}
}
