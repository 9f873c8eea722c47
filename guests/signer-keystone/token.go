package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const (
	// maxTokenBytes is the size that servers accept in a header. Fernet tokens
	// have about 250 bytes.
	maxTokenBytes = 8 << 10
	// maxMargin is the time before its end at which a token is renewed, or a
	// fifth of its life if shorter: requests take a while to arrive.
	maxMargin = 5 * time.Minute
	// maxDetailBytes bounds Keystone's words in an error.
	maxDetailBytes = 300
)

// token is the state of the signer, as JSON. The zero value means none.
type token struct {
	Token     string `json:"token"`
	ExpiresMs int64  `json:"expires"`
	RenewMs   int64  `json:"renew"`
	Of        string `json:"of"`
}

// encode returns no empty text even for none: for an empty state the host would
// keep the old one, perhaps a rejected token.
func (t *token) encode() ([]byte, error) {
	state, err := json.Marshal(t)
	if err != nil {
		return nil, sdk.Error(abi.CodeInternal, "encoding the state failed")
	}
	return state, nil
}

// signature is valid for all requests of this credential and scope until then.
func (t *token) signature(untilMs int64) (*abi.SignResponse, error) {
	state, err := t.encode()
	return &abi.SignResponse{
		Headers: []*abi.HttpHeader{{Name: "X-Auth-Token", Value: t.Token}}, State: state, ExpiresMs: untilMs,
	}, err
}

// held returns the state's token, or the zero value if it is not valid for this
// login.
func (l *login) held(req *abi.SignRequest) *token {
	var t token
	if req.Rejected || len(req.State) == 0 || json.Unmarshal(req.State, &t) != nil || t.Of != l.of || t.ExpiresMs <= req.NowMs {
		return &token{}
	}
	return &t
}

// answer is the part of Keystone's answer that is used.
type answer struct {
	Token *struct {
		IssuedAt  string  `json:"issued_at"`
		ExpiresAt string  `json:"expires_at"`
		Project   *object `json:"project"`
		Domain    *object `json:"domain"`
		System    *system `json:"system"`
	} `json:"token"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// token reads the outcome of the token request.
func (l *login) token(req *abi.SignRequest) (*token, error) {
	resp := req.TokenResult.Response
	if req.TokenResult.Code != 0 || resp == nil {
		return nil, notSent(req.TokenResult)
	}
	var a answer
	malformed := json.Unmarshal(resp.Body, &a) != nil
	if resp.Status != 200 && resp.Status != 201 {
		return nil, l.refused(resp, a.Error.Message)
	}
	t := &token{Token: header(resp, "X-Subject-Token"), Of: l.of}
	if malformed || a.Token == nil || !isToken(t.Token) {
		return nil, sdk.Error(abi.CodeInternal, "Keystone's answer is not the one of the Identity API v3: check auth_url")
	}
	// Keystone's clock may differ from ours: only the difference counts.
	issued, err1 := time.Parse(time.RFC3339, a.Token.IssuedAt)
	expires, err2 := time.Parse(time.RFC3339, a.Token.ExpiresAt)
	life := expires.Sub(issued)
	if err1 != nil || err2 != nil || life <= 0 {
		return nil, sdk.Error(abi.CodeInternal, "Keystone's answer does not say how long the token is good")
	}
	t.ExpiresMs = req.NowMs + life.Milliseconds()
	t.RenewMs = t.ExpiresMs - min(maxMargin, life/5).Milliseconds()
	return t, l.scope.check(&scope{Project: a.Token.Project, Domain: a.Token.Domain, System: a.Token.System})
}

// isToken accepts visible ASCII, since it becomes a header's value.
func isToken(s string) bool {
	return s != "" && len(s) <= maxTokenBytes && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func header(resp *abi.HttpResponse, name string) string {
	for _, h := range resp.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// notSent is the error of a token request without a response.
func notSent(result *abi.HttpResult) error {
	e := &abi.Error{Code: abi.Code(result.Code), Message: "the token request failed"}
	if e.Code == abi.CodeOK {
		e.Code = abi.CodeInternal
	}
	if result.Error != nil {
		e.Message += ": " + result.Error.Message
		e.RetryAfter = time.Duration(result.Error.RetryAfterMs) * time.Millisecond
	}
	return e
}

// refused is the error of a response without a token.
func (l *login) refused(resp *abi.HttpResponse, detail string) error {
	status := "Keystone answered " + strconv.Itoa(int(resp.Status))
	e := &abi.Error{Code: abi.CodeInternal}
	// Keystone answers 404 for an expired or revoked token; for a wrong URL
	// there is no message in JSON.
	lost := resp.Status == 404 && l.identity.Token != nil && detail != ""
	switch {
	case resp.Status == 401 || lost:
		e.Code, e.Message = abi.CodeUnauthenticated, status+": it refused the "+l.identity.Methods[0]+" of the Secret, or its user has no role in the scope"
	case resp.Status == 403:
		e.Code, e.Message = abi.CodeUnauthenticated, status+": the user of the Secret may not do this"
	case resp.Status == 413 || resp.Status == 429:
		e.Code, e.Message, e.RetryAfter = abi.CodeThrottled, status+": too many requests", retryAfter(resp)
	case resp.Status >= 500:
		e.Code, e.Message = abi.CodeUnavailable, status
	case resp.Status == 400:
		e.Code, e.Message = abi.CodeInvalid, status+": check the Secret and the scope"
	default:
		e.Code, e.Message = abi.CodeInvalid, status+": check that auth_url is that of the Identity API v3"
	}
	if detail = l.safe(detail); detail != "" {
		e.Message += " (" + detail + ")"
	}
	return e
}

// safe returns Keystone's words if they are fit for a log: they could repeat
// the request.
func (l *login) safe(detail string) string {
	unprintable := strings.ContainsFunc(detail, func(r rune) bool { return r < ' ' || r >= 0x7f })
	if unprintable || len(detail) > maxDetailBytes || strings.Contains(detail, l.secret) {
		return ""
	}
	return detail
}

func retryAfter(resp *abi.HttpResponse) time.Duration {
	seconds, err := strconv.ParseInt(header(resp, "Retry-After"), 10, 64)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}
