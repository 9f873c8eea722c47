package credential

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

type signerFunc func(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error)

func (f signerFunc) Sign(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
	return f(ctx, req)
}

type senderFunc func(ctx context.Context, request *abi.HttpRequest) *abi.HttpResult

func (f senderFunc) Send(ctx context.Context, request *abi.HttpRequest) *abi.HttpResult {
	return f(ctx, request)
}

func pair(name, value string) []*abi.HttpHeader {
	return []*abi.HttpHeader{{Name: name, Value: value}}
}

// identity is an identity service with a signer for it, as OpenStack has.
type identity struct {
	requests, signatures atomic.Int64
	// result is the answer to a token request; nil: a token.
	result func(*abi.HttpRequest) *abi.HttpResult
	now    func() time.Time
	seen   atomic.Pointer[abi.SignRequest]
}

func (i *identity) Send(_ context.Context, request *abi.HttpRequest) *abi.HttpResult {
	n := i.requests.Add(1)
	if i.result != nil {
		return i.result(request)
	}
	return &abi.HttpResult{Response: &abi.HttpResponse{Status: 201, Headers: pair("X-Subject-Token", fmt.Sprintf("gAAAA-token-%d-%s", n, request.Body))}}
}

func (i *identity) Sign(_ context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
	i.signatures.Add(1)
	i.seen.Store(req)
	token := strings.TrimPrefix(string(req.State), "token=")
	if result := req.TokenResult; result != nil {
		if req.Rejected {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: "rejected, although there is a new token"}
		}
		switch response := result.Response; {
		case response == nil:
			return nil, &abi.Error{Code: abi.CodeUnauthenticated, Message: "no token: " + result.Error.Message}
		case response.Status != 201:
			return nil, &abi.Error{Code: abi.CodeUnauthenticated, Message: "no token: " + string(response.Body)}
		}
		token = result.Response.Headers[0].Value
	} else if token == "" || req.Rejected {
		return &abi.SignResponse{Done: true, TokenRequest: &abi.HttpRequest{Method: "POST", Url: "https://keystone/v3/auth/tokens", Body: []byte(req.Scope), FollowRedirects: 5}}, nil
	}
	return &abi.SignResponse{Done: true, Headers: pair("X-Auth-Token", token), State: []byte("token=" + token), ExpiresMs: i.now().Add(time.Hour).UnixMilli()}, nil
}

func newIdentitySet(t *testing.T) (*identity, *fakeSecrets, *Set, func(time.Duration)) {
	i := &identity{}
	secrets := newFakeSecrets("password", "hunter2hunter3\n", "username", "ccm")
	set, clock := newTestSet(t, secrets, Spec{PublicKeys: []string{"username"}, Signer: &SignerSpec{Signer: i, Tokens: i}})
	i.now = clock.Now
	return i, secrets, set, func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
}

func TestSignerTokenIsCached(t *testing.T) {
	i, secrets, set, pass := newIdentitySet(t)
	url, last := record(t)
	token := func(scope string) string {
		t.Helper()
		send(t, set, scope, "GET", url+"/servers?a=b", "", "X-Auth-Token", "the guest's")
		return strings.Join(last.Header.Values("X-Auth-Token"), ", ")
	}
	reject := func(scope string, want bool) {
		t.Helper()
		if got := set.Rejected(t.Context(), "cloud", scope); got != want {
			t.Errorf("Rejected says %v, want %v", got, want)
		}
	}
	for _, step := range []struct {
		what, scope, want string
		do                func()
	}{
		{"first", "a", "gAAAA-token-1-a", func() { reject("a", false) }},
		{"cached", "a", "gAAAA-token-1-a", func() {}},
		{"another scope", "b", "gAAAA-token-2-b", func() {}},
		{"the first again", "a", "gAAAA-token-1-a", func() {}},
		{"rejected when fresh", "a", "gAAAA-token-1-a", func() { reject("a", true) }},
		{"rejected", "a", "gAAAA-token-3-a", func() { pass(time.Minute); reject("a", true) }},
		{"the other one is not", "b", "gAAAA-token-2-b", func() {}},
		{"expired, but the signer's state is good", "a", "gAAAA-token-3-a", func() { pass(59*time.Minute + time.Second) }},
		{"the Secret rotated", "a", "gAAAA-token-4-a", func() { secrets.set("password", "a new password") }},
	} {
		step.do()
		if got := token(step.scope); got != step.want {
			t.Fatalf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	for _, value := range []string{"gAAAA-token-1-a", "gAAAA-token-2-b", "hunter2hunter3", "a new password"} {
		if got := string(set.Scrub([]byte(value))); got != "[scrubbed:cloud]" {
			t.Errorf("%q is scrubbed to %q", value, got)
		}
	}
	if got := string(set.Scrub([]byte("user ccm"))); got != "user ccm" {
		t.Errorf("a public value is scrubbed: %q", got)
	}
	if n := i.signatures.Load(); n != 9 {
		t.Errorf("the signer was asked %d times", n)
	}
}

func TestSignerIsAskedWithWhatItNeeds(t *testing.T) {
	var got []*abi.SignRequest
	signer := signerFunc(func(_ context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
		copied := *req
		got = append(got, &copied)
		if req.TokenResult == nil {
			return &abi.SignResponse{Done: true, TokenRequest: &abi.HttpRequest{Url: "https://keystone/", FollowRedirects: 3}, State: []byte("half way")}, nil
		}
		return &abi.SignResponse{Done: true, State: []byte("there"), Headers: pair("X-A", "1"), Query: pair("sig na", "v&ue")}, nil
	})
	sender := senderFunc(func(_ context.Context, request *abi.HttpRequest) *abi.HttpResult {
		if request.FollowRedirects != 0 {
			t.Error("a token request must not follow redirects")
		}
		return &abi.HttpResult{Response: &abi.HttpResponse{Status: 200}}
	})
	set, _ := newTestSet(t, newFakeSecrets("b", "bbbb", "a", "aaaa\n"), Spec{Signer: &SignerSpec{Signer: signer, Tokens: sender}})
	url, last := record(t)
	send(t, set, "project:1", "POST", url+"/x?y=z", "the body", "X-Two", "2", "X-Two", "3")
	if len(got) != 2 {
		t.Fatalf("asked %d times", len(got))
	}
	first := got[0]
	want := []any{"a=aaaa\n b=bbbb ", "POST", url + "/x?y=z", "the body", "X-Two=2 X-Two=3 ", "project:1", start.UnixMilli(), ""}
	secret, headers := "", ""
	for _, v := range first.Secret {
		secret += v.Key + "=" + string(v.Value) + " "
	}
	for _, h := range first.Request.Headers {
		headers += h.Name + "=" + h.Value + " "
	}
	have := []any{secret, first.Request.Method, first.Request.Url, string(first.Request.Body), headers, first.Scope, first.NowMs, string(first.State)}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if string(got[1].State) != "half way" || got[1].TokenResult == nil || got[1].TokenResult.Response.Status != 200 {
		t.Errorf("the second question: %v", got[1])
	}
	if last.URL.RawQuery != "y=z&sig%20na=v%26ue" || last.Header.Get("X-A") != "1" {
		t.Errorf("sent %s %v", last.URL.RawQuery, last.Header)
	}
}

// TestSignaturesForOneRequest is a signer that signs each request, as that of
// CloudStack does: no answer serves twice, and none waits for another.
func TestSignaturesForOneRequest(t *testing.T) {
	together := make(chan struct{}, 2)
	var n atomic.Int64
	signer := signerFunc(func(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
		i := n.Add(1)
		if i > 1 {
			together <- struct{}{}
			for len(together) < 2 && ctx.Err() == nil {
				select { // until the other one is here, too
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		}
		return &abi.SignResponse{Done: true, Query: pair("signature", fmt.Sprintf("signature-%d", i))}, nil
	})
	set, _ := newTestSet(t, newFakeSecrets("key", "hunter2hunter3"), Spec{Signer: &SignerSpec{Signer: signer}})
	url, last := record(t)
	send(t, set, "", "GET", url, "")
	if last.URL.RawQuery != "signature=signature-1" || string(set.Scrub([]byte("signature-1"))) != "signature-1" {
		t.Errorf("query %q; parameters of few bytes are not scrubbed", last.URL.RawQuery)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := trySend(t, set, "", "GET", url, ""); err != nil || ctx.Err() != nil {
				t.Errorf("%v, %v", err, ctx.Err())
			}
		})
	}
	wg.Wait()
	if set.Rejected(t.Context(), "cloud", "") {
		t.Error("there is no token to be renewed")
	}
}

func TestSignerAnswersAreBounded(t *testing.T) {
	many := make([]*abi.HttpHeader, 33)
	for i := range many {
		many[i] = &abi.HttpHeader{Name: fmt.Sprint("x", i), Value: "v"}
	}
	ask := func(r *abi.HttpRequest) *abi.SignResponse { return &abi.SignResponse{Done: true, TokenRequest: r} }
	tests := map[string]struct {
		answer *abi.SignResponse
		code   abi.Code
		says   string
	}{
		"empty":              {&abi.SignResponse{}, abi.CodeInternal, "done is not set"},
		"Host":               {&abi.SignResponse{Done: true, Headers: pair("host", "x")}, abi.CodeInternal, `"host" must not be set`},
		"Content-Length":     {&abi.SignResponse{Done: true, Headers: pair("Content-Length", "1")}, abi.CodeInternal, "must not be set"},
		"Transfer-Encoding":  {&abi.SignResponse{Done: true, Headers: pair("Transfer-Encoding", "chunked")}, abi.CodeInternal, "must not be set"},
		"Connection":         {&abi.SignResponse{Done: true, Headers: pair("connection", "close")}, abi.CodeInternal, "must not be set"},
		"a name with spaces": {&abi.SignResponse{Done: true, Headers: pair("a b", "x")}, abi.CodeInternal, "not valid"},
		"a line break":       {&abi.SignResponse{Done: true, Headers: pair("X-A", "x\r\nHost: y")}, abi.CodeInternal, "not valid"},
		"many headers":       {&abi.SignResponse{Done: true, Headers: many}, abi.CodeInternal, "33 headers"},
		"large headers":      {&abi.SignResponse{Done: true, Headers: pair("x", strings.Repeat("v", 17<<10))}, abi.CodeInternal, "limit is 16384"},
		"many parameters":    {&abi.SignResponse{Done: true, Query: many}, abi.CodeInternal, "33 parameters"},
		"an empty parameter": {&abi.SignResponse{Done: true, Query: pair("", "x")}, abi.CodeInternal, "no name"},
		"a large query":      {&abi.SignResponse{Done: true, Query: pair("x", strings.Repeat("v", 17<<10))}, abi.CodeTooLarge, "to the query, the limit is 8192"},
		"a large state":      {&abi.SignResponse{Done: true, State: make([]byte, 64<<10+1)}, abi.CodeInternal, "state has 65537 bytes"},
		"a time before 1970": {&abi.SignResponse{Done: true, ExpiresMs: -1}, abi.CodeInternal, "negative"},
		"two token requests": {ask(&abi.HttpRequest{Url: "https://keystone/"}), abi.CodeUnavailable, "second token request"},
		"a credential":       {ask(&abi.HttpRequest{Url: "https://keystone/", Credential: "cloud"}), abi.CodeDenied, "names a credential"},
		"a denied request":   {ask(&abi.HttpRequest{Url: "https://evil/"}), abi.CodeDenied, "no grant allows it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			signer := signerFunc(func(context.Context, *abi.SignRequest) (*abi.SignResponse, error) { return test.answer, nil })
			sender := senderFunc(func(_ context.Context, r *abi.HttpRequest) *abi.HttpResult {
				if r.Url == "https://evil/" {
					return &abi.HttpResult{Code: uint32(abi.CodeDenied), Error: &abi.ErrorDetail{Message: "no grant allows it"}}
				}
				return &abi.HttpResult{Response: &abi.HttpResponse{Status: 200}}
			})
			set, _ := newTestSet(t, newFakeSecrets("key", "hunter2hunter3"), Spec{Signer: &SignerSpec{Signer: signer, Tokens: sender}})
			var told string
			set.signerFailed = func(_, message string) { told += message }
			_, err := trySend(t, set, "", "GET", "http://127.0.0.1:1/", "")
			refused(t, err, test.code)
			if told += err.Error(); !strings.Contains(told, test.says) {
				t.Errorf("%q does not say %q", told, test.says)
			}
		})
	}
	t.Run("no token URL", func(t *testing.T) {
		signer := signerFunc(func(context.Context, *abi.SignRequest) (*abi.SignResponse, error) {
			return ask(&abi.HttpRequest{}), nil
		})
		set, _ := newTestSet(t, newFakeSecrets("key", "hunter2hunter3"), Spec{Signer: &SignerSpec{Signer: signer}})
		_, err := trySend(t, set, "", "GET", "http://127.0.0.1:1/", "")
		refused(t, err, abi.CodeDenied, "no URL is granted", "HostConfiguration")
	})
}

func TestAWrongPasswordIsNotTriedAgainAtOnce(t *testing.T) {
	i, secrets, set, pass := newIdentitySet(t)
	url, _ := record(t)
	i.result = func(*abi.HttpRequest) *abi.HttpResult {
		return &abi.HttpResult{Response: &abi.HttpResponse{Status: 401, Body: []byte(`{"error": "a token, by mistake: gAAAAABmXyZ0123456789"}`)}}
	}
	for range 5 {
		_, err := trySend(t, set, "", "GET", url, "")
		refused(t, err, abi.CodeUnauthenticated, "no token")
		if strings.Contains(err.Error(), "gAAAAABm") {
			t.Errorf("%q holds a token", err)
		}
	}
	if n := i.requests.Load(); n != 1 {
		t.Errorf("%d token requests", n)
	}
	i.result = nil
	secrets.set("password", "the right one")
	send(t, set, "", "GET", url, "")
	pass(failureRest)
	send(t, set, "other", "GET", url, "")
}

func TestScopesAreBounded(t *testing.T) {
	i, _, set, _ := newIdentitySet(t)
	url, last := record(t)
	for n := range 3 * maxScopes {
		send(t, set, fmt.Sprint(n), "GET", url, "")
		send(t, set, "used all the time", "GET", url, "")
	}
	method := set.credentials["cloud"].method.(*signerMethod)
	if n := len(method.scopes.byName); n > maxScopes {
		t.Errorf("%d scopes are remembered", n)
	}
	if got := last.Header.Get("X-Auth-Token"); got != "gAAAA-token-2-used all the time" {
		t.Errorf("the scope that is used was forgotten: %q", got)
	}
	if n := i.requests.Load(); n != 3*maxScopes+1 {
		t.Errorf("%d token requests", n)
	}
	if n := len(set.scrubber.current); n > maxScopes+1 {
		t.Errorf("values of %d owners are current", n)
	}
}

func TestOneSignatureForAll(t *testing.T) {
	i, _, set, _ := newIdentitySet(t)
	url, _ := record(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := trySend(t, set, "", "GET", url, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if i.requests.Load() != 1 || i.signatures.Load() != 2 {
		t.Errorf("%d token requests, %d signatures", i.requests.Load(), i.signatures.Load())
	}
}

func TestWaitingForARenewalEnds(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	signer := signerFunc(func(context.Context, *abi.SignRequest) (*abi.SignResponse, error) {
		close(entered)
		<-leave
		return &abi.SignResponse{Done: true}, nil
	})
	set, _ := newTestSet(t, newFakeSecrets("key", "hunter2hunter3"), Spec{Signer: &SignerSpec{Signer: signer}})
	url, _ := record(t)
	var wg sync.WaitGroup
	wg.Go(func() { send(t, set, "", "GET", url, "") })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused(t, apply(ctx, set, "cloud", "", newRequest(t, url)), abi.CodeDeadline, "waiting for another request's renewal")
	close(leave)
	wg.Wait()
}

func TestNewSignerAndTokenSender(t *testing.T) {
	signer := NewSigner(func(_ context.Context, op abi.Op, req, resp abi.Message) error {
		if op != abi.OpSign || req.(*abi.SignRequest).Scope != "s" {
			t.Errorf("%v %v", op, req)
		}
		resp.(*abi.SignResponse).Done = true
		return nil
	})
	if resp, err := signer.Sign(t.Context(), &abi.SignRequest{Scope: "s"}); err != nil || !resp.Done {
		t.Errorf("%v, %v", resp, err)
	}
	fail := batchFunc(func(context.Context, []*abi.HttpRequest) ([]*abi.HttpResult, error) {
		return nil, &abi.Error{Code: abi.CodeThrottled, Message: "slow", RetryAfter: time.Second}
	})
	got := NewTokenSender(fail).Send(t.Context(), &abi.HttpRequest{})
	if got.Code != uint32(abi.CodeThrottled) || got.Error.Message != "slow" || got.Error.RetryAfterMs != 1000 {
		t.Errorf("got %v", got)
	}
}

type batchFunc func(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error)

func (f batchFunc) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return f(ctx, requests)
}
