package sdktest

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// SignerHost is a host for testing a signer:
//
//	h := sdktest.NewSignerHost(t)
//	h.Secret = map[string]string{"password": "..."}
//	h.Configure(&signer{}, "auth_url: https://keystone.example.com")
//	h.Tokens = func(req *abi.HttpRequest) (*abi.HttpResponse, error) { ... }
//	signed, err := h.Sign(&abi.HttpRequest{Method: "GET", Url: "https://..."})
//
// For each request it acts as the manager does: it reuses signatures, sends the
// token request, keeps the state. An answer that the manager would refuse, or a
// secret in the text of an error, fails the test. Its fields may be set between
// requests; it handles one at a time.
type SignerHost struct {
	// Secret is the data of the Kubernetes Secret. A change drops signatures
	// and states, as a rotation does.
	Secret map[string]string
	// Tokens answers token requests. Nil answers CodeDenied.
	Tokens func(req *abi.HttpRequest) (*abi.HttpResponse, error)
	// Clock is the host's time.
	Clock time.Time

	t      testing.TB
	server *sdk.SignerServer
	scopes map[string]*signature
}

// signature is the cached answer for one scope.
type signature struct {
	state    []byte
	signed   *abi.SignResponse // nil: ask the signer
	secret   string            // encoded, of this signature
	rejected bool
}

// NewSignerHost returns a host without signatures.
func NewSignerHost(t testing.TB) *SignerHost {
	return &SignerHost{
		t: t, Secret: map[string]string{}, scopes: map[string]*signature{},
		Clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// Serve sets the signer of Call and Sign, without configuring it. Signatures of
// the previous signer are dropped; its states stay.
func (h *SignerHost) Serve(s sdk.Signer) {
	h.server = sdk.NewSignerServer(s)
	for _, signature := range h.scopes {
		signature.signed = nil
	}
}

// Configure sets the signer and configures it. An error of the signer ends the
// test.
func (h *SignerHost) Configure(s sdk.Signer, config string) *abi.ConfigureResponse {
	h.t.Helper()
	h.Serve(s)
	var resp abi.ConfigureResponse
	if err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(config), ClusterName: "kubernetes"}, &resp); err != nil {
		h.t.Fatalf("configure: %v", err)
	}
	return &resp
}

// Call runs one op on the signer. The error is an *abi.Error as the manager
// gets it.
func (h *SignerHost) Call(op abi.Op, req, resp abi.Message) error {
	h.t.Helper()
	if h.server == nil {
		h.t.Fatal("no signer: call Serve or Configure first")
	}
	code, answer := h.server.Call(op, encode(h.t, req))
	if code == abi.CodeOK {
		decode(h.t, answer, resp)
		return nil
	}
	var detail abi.ErrorDetail
	decode(h.t, answer, &detail)
	for key, value := range h.Secret {
		if len(value) >= 4 && strings.Contains(detail.Message, value) {
			h.t.Errorf("sdktest: the error %q holds the secret's %s", detail.Message, key)
		}
	}
	return &abi.Error{Code: code, Message: detail.Message, RetryAfter: time.Duration(detail.RetryAfterMs) * time.Millisecond}
}

// Sign returns the signed request; req stays unchanged.
func (h *SignerHost) Sign(req *abi.HttpRequest) (*abi.HttpRequest, error) {
	h.t.Helper()
	s := h.scopes[req.CredentialScope]
	if s == nil {
		s = &signature{}
		h.scopes[req.CredentialScope] = s
	}
	if s.secret != h.encodedSecret() {
		*s = signature{secret: h.encodedSecret()}
	}
	signed := s.signed
	if signed == nil || signed.ExpiresMs <= h.Clock.UnixMilli() {
		var err error
		if signed, err = h.ask(req, s); err != nil {
			return nil, err
		}
	}
	return apply(req, signed), nil
}

// Rejected simulates the cloud's 401 to the signature for the scope.
func (h *SignerHost) Rejected(scope string) {
	if s := h.scopes[scope]; s != nil {
		s.signed, s.rejected = nil, true
	}
}

// ask calls the signer, and again with the outcome of its token request.
func (h *SignerHost) ask(req *abi.HttpRequest, s *signature) (*abi.SignResponse, error) {
	h.t.Helper()
	sign := &abi.SignRequest{
		Secret: h.secretValues(), Request: req, NowMs: h.Clock.UnixMilli(),
		State: s.state, Scope: req.CredentialScope, Rejected: s.rejected,
	}
	resp := &abi.SignResponse{}
	if err := h.Call(abi.OpSign, sign, resp); err != nil {
		return nil, err
	}
	if resp.TokenRequest != nil {
		sign.TokenResult, sign.Rejected = h.token(resp.TokenRequest), false
		if len(resp.State) > 0 {
			sign.State = resp.State
		}
		resp = &abi.SignResponse{}
		if err := h.Call(abi.OpSign, sign, resp); err != nil {
			return nil, err
		}
	}
	if !resp.Done || resp.TokenRequest != nil {
		h.t.Fatalf("sdktest: the signer's last answer is no signature: %v", resp)
	}
	*s = signature{state: resp.State, signed: resp, secret: s.secret}
	return resp, nil
}

func (h *SignerHost) token(req *abi.HttpRequest) *abi.HttpResult {
	err := error(&abi.Error{Code: abi.CodeDenied, Message: "sdktest: SignerHost.Tokens is not set"})
	var resp *abi.HttpResponse
	if h.Tokens != nil {
		resp, err = h.Tokens(req)
	}
	return httpResult(resp, err)
}

func (h *SignerHost) secretValues() []*abi.SecretValue {
	var values []*abi.SecretValue
	for key, value := range h.Secret {
		values = append(values, &abi.SecretValue{Key: key, Value: []byte(value)})
	}
	slices.SortFunc(values, func(a, b *abi.SecretValue) int { return strings.Compare(a.Key, b.Key) })
	return values
}

func (h *SignerHost) encodedSecret() string {
	return string(encode(h.t, &abi.SignRequest{Secret: h.secretValues()}))
}

// apply sets the headers and adds the query, percent-encoded, without a
// fragment.
func apply(req *abi.HttpRequest, signed *abi.SignResponse) *abi.HttpRequest {
	target, _, _ := strings.Cut(req.Url, "#")
	out := &abi.HttpRequest{Method: req.Method, Url: target, Body: req.Body}
	for _, header := range req.Headers {
		replaced := slices.ContainsFunc(signed.Headers, func(h *abi.HttpHeader) bool { return strings.EqualFold(h.Name, header.Name) })
		if !replaced {
			out.Headers = append(out.Headers, header)
		}
	}
	out.Headers = append(out.Headers, signed.Headers...)
	for _, parameter := range signed.Query {
		separator := "&"
		if !strings.Contains(out.Url, "?") {
			separator = "?"
		}
		out.Url += separator + url.QueryEscape(parameter.Name) + "=" + url.QueryEscape(parameter.Value)
	}
	return out
}
