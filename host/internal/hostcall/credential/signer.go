package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// maxStateBytes is the size of the largest state of a signer.
	maxStateBytes = 64 << 10
	// maxSignerMessageBytes bounds the quotation of a signer's error.
	maxSignerMessageBytes = 512
)

// Signer is a module that holds a secret and has no network. It is safe for concurrent use.
type Signer interface {
	// Sign asks for the authentication of a request. An *abi.Error is the module's answer.
	Sign(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error)
}

// TokenSender sends one signer's token requests, only to its granted URLs. It is safe for
// concurrent use.
type TokenSender interface {
	Send(ctx context.Context, request *abi.HttpRequest) *abi.HttpResult
}

// NewSigner returns the signer whose module invoke calls.
func NewSigner(invoke opcontext.InvokeFunc) Signer { return module{invoke} }

type module struct{ invoke opcontext.InvokeFunc }

func (m module) Sign(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
	resp := new(abi.SignResponse)
	if err := m.invoke(ctx, abi.OpSign, req, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// BatchSender sends requests; egress.Client is one.
type BatchSender interface {
	Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error)
}

// NewTokenSender returns a TokenSender that sends through batches of one.
func NewTokenSender(sender BatchSender) TokenSender { return single{sender} }

type single struct{ sender BatchSender }

func (s single) Send(ctx context.Context, request *abi.HttpRequest) *abi.HttpResult {
	results, err := s.sender.Send(ctx, []*abi.HttpRequest{request})
	if err == nil && len(results) == 1 {
		return results[0]
	}
	e := &abi.Error{Code: abi.CodeInternal, Message: "the request has no result"}
	if err != nil {
		errors.As(err, &e)
	}
	return &abi.HttpResult{Code: uint32(e.Code), Error: &abi.ErrorDetail{Message: e.Message, RetryAfterMs: e.RetryAfter.Milliseconds()}}
}

// signed is a signer's answer.
type signed struct{ headers, query []*abi.HttpHeader }

type signerMethod struct {
	redacted
	SignerSpec
	holder holder
	clock  clock.PassiveClock
	scopes *scopes
}

func newSigner(s SignerSpec, h holder, clock clock.PassiveClock) *signerMethod {
	return &signerMethod{SignerSpec: s, holder: h, clock: clock, scopes: newScopes(h, clock)}
}

func (*signerMethod) keys() keys { return keys{all: true} }

func (m *signerMethod) apply(ctx context.Context, c *call) error {
	s := m.scopes.get(c.scope)
	out, err := m.signed(ctx, s, c)
	if err != nil {
		return err
	}
	setHeaders(c.req, out.headers)
	return addParams(c.req, out.query)
}

// errTokenWanted is the error of a signature that must not request a token.
var errTokenWanted = errors.New("the signer asks for a token request")

func (m *signerMethod) signed(ctx context.Context, s *scope, c *call) (signed, error) {
	// Signatures for single requests need no lock, until one needs a token.
	if s.servesOnce(c.version) {
		l, _, err := m.sign(ctx, s, c, false)
		if !errors.Is(err, errTokenWanted) {
			return l.value, err
		}
	}
	return s.renewal.get(ctx, c.version, func(ctx context.Context) (lease[signed], bool, error) {
		return m.sign(ctx, s, c, true)
	})
}

// sign asks the signer, at most twice: its first answer may be a token request. Failed
// reports whether that one failed.
func (m *signerMethod) sign(ctx context.Context, s *scope, c *call, mayAsk bool) (l lease[signed], failed bool, err error) {
	req := signRequest(c)
	req.State, req.Rejected = s.load(c.version)
	resp, err := m.ask(ctx, req)
	if err != nil {
		return l, false, err
	}
	if wanted := resp.TokenRequest; wanted != nil {
		if !mayAsk {
			return l, false, errTokenWanted
		}
		if req.TokenResult, err = m.token(ctx, wanted); err != nil {
			return l, true, err
		}
		if len(resp.State) > 0 {
			req.State = resp.State
		}
		req.Rejected = false
		if resp, err = m.ask(ctx, req); err != nil {
			return l, true, err
		}
		if resp.TokenRequest != nil {
			return l, true, errors.New("the signer asks for a second token request; one for each signature is allowed")
		}
	}
	l = m.lease(c, resp)
	m.scopes.keep(s, c, resp, l)
	return l, false, nil
}

func (m *signerMethod) lease(c *call, resp *abi.SignResponse) lease[signed] {
	l := lease[signed]{value: signed{resp.Headers, resp.Query}, version: c.version}
	now := m.clock.Now()
	if end := time.UnixMilli(resp.ExpiresMs); resp.ExpiresMs > 0 && end.After(now) {
		l.until = renewAt(now, end)
	}
	return l
}

// ask asks the signer, and checks its answer.
func (m *signerMethod) ask(ctx context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
	resp, err := m.Signer.Sign(ctx, req)
	if err != nil {
		return nil, m.failure(ctx, req, err)
	}
	if err := checkAnswer(resp); err != nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the signer's answer is not valid: " + m.words(req.TokenResult != nil, err.Error())}
	}
	return resp, nil
}

func checkAnswer(resp *abi.SignResponse) error {
	if !resp.Done {
		return errors.New("it is empty: done is not set")
	}
	if err := checkHeaders(resp.Headers); err != nil {
		return err
	}
	if err := checkParams(resp.Query); err != nil {
		return err
	}
	if size := len(resp.State); size > maxStateBytes {
		return fmt.Errorf("the state has %d bytes, the limit is %d", size, maxStateBytes)
	}
	if resp.ExpiresMs < 0 {
		return errors.New("expires_ms is negative")
	}
	return nil
}

// token sends a token request.
func (m *signerMethod) token(ctx context.Context, request *abi.HttpRequest) (*abi.HttpResult, error) {
	switch {
	case m.Tokens == nil:
		return nil, &abi.Error{Code: abi.CodeDenied, Message: "the signer asks for a token request, but no URL is granted to it; add it to the signer's tokens in the HostConfiguration"}
	case request.Credential != "":
		return nil, &abi.Error{Code: abi.CodeDenied, Message: "the signer's token request names a credential; signers have none"}
	}
	// Invariant S7 (host/SECURITY.md): a token request, which holds the secret, goes only to
	// the administrator's URLs, without redirects.
	request.FollowRedirects = 0
	result := m.Tokens.Send(ctx, request)
	if result.Code == uint32(abi.CodeDenied) {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: "the signer's token request is refused: " + m.words(false, cmp.Or(result.Error, &abi.ErrorDetail{}).Message)}
	}
	return result, nil
}

// inTheLog replaces a signer's words that the provider must not see.
const inTheLog = "its message is in the manager's log"

// words are the part of a signer's error that the provider may read. Before the token
// request it is a fixed text: a signer may repeat the provider's own text, and a scrubbed
// copy would confirm a guess of the secret. After the token request it may repeat the answer
// of the cloud, and such requests are limited.
func (m *signerMethod) words(sent bool, message string) string {
	message = string(m.holder.set.scrubber.Scrub([]byte(message)))
	message = text.Line(message, maxSignerMessageBytes)
	m.holder.set.signerFailed(m.holder.name, message)
	if sent {
		return message
	}
	// Invariant S4 (host/SECURITY.md): before a token request a provider gets none of a signer's
	// words.
	return inTheLog
}

// failure is a signer's error for the provider. The signer's message is scrubbed of its own
// inputs, of which the scrubber knows only some, and reported.
func (m *signerMethod) failure(ctx context.Context, req *abi.SignRequest, err error) error {
	seen := NewScrubber(m.clock)
	seen.hold(owner{}, m.holder.name, suspicious(req)...)
	e := &abi.Error{Code: abi.CodeInternal}
	message := err.Error()
	var answer *abi.Error
	if errors.As(err, &answer) {
		e.Code, e.RetryAfter, message = answer.Code, answer.RetryAfter, answer.Message
	} else if ctx.Err() != nil {
		e.Code = abi.CodeDeadline
	}
	message = string(m.holder.set.scrubber.Scrub([]byte(message)))
	e.Message = "the signer: " + m.words(req.TokenResult != nil, string(seen.Scrub([]byte(message))))
	return e
}

// suspicious returns possible tokens among a signer's inputs: long words.
func suspicious(req *abi.SignRequest) [][]byte {
	out := words(string(req.State), 16)
	if req.TokenResult == nil || req.TokenResult.Response == nil {
		return out
	}
	response := req.TokenResult.Response
	out = append(out, words(string(response.Body), 16)...)
	for _, h := range response.Headers {
		out = append(out, words(h.Value, 16)...)
	}
	return out
}

// maxWords bounds the words of one text.
const maxWords = 256

// words returns the words of a header or of JSON that have at least size bytes.
func words(text string, size int) [][]byte {
	var out [][]byte
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`",;:={}[]<>'`, r) }) {
		if len(word) >= size && len(out) < maxWords {
			out = append(out, []byte(word))
		}
	}
	return out
}

func (m *signerMethod) rejected(scope string) bool { return m.scopes.reject(scope) }

// signRequest describes a request to a signer.
func signRequest(c *call) *abi.SignRequest {
	out := &abi.SignRequest{
		Request: &abi.HttpRequest{Method: c.req.Method, Url: c.req.URL.String(), Headers: headersOf(c.req.Header), Body: c.body},
		NowMs:   c.now.UnixMilli(),
		Scope:   c.scope,
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		out.Secret = append(out.Secret, &abi.SecretValue{Key: key, Value: []byte(c.values[key])})
	}
	return out
}

func headersOf(h http.Header) []*abi.HttpHeader {
	var out []*abi.HttpHeader
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			out = append(out, &abi.HttpHeader{Name: name, Value: strings.ToValidUTF8(value, "?")})
		}
	}
	return out
}
