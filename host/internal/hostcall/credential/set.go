package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// MaxScopeBytes is the length of the longest credential_scope.
const MaxScopeBytes = 256

// maxMessageBytes is the length of the longest error message.
const maxMessageBytes = 1 << 10

// Options of a Set. The zero value of a field is its default.
type Options struct {
	// Scrubber learns the values. Default: a new one. Successive Sets of one provider share a
	// Scrubber, so that the earlier Set's values stay scrubbed.
	Scrubber *Scrubber
	// Clock tells the time. Default: the system's.
	Clock clock.PassiveClock
	// SignerFailed is told a failing signer's message, one line without secrets, at most 512
	// bytes. The provider gets it only after a token request. Default: nobody. It must not
	// block.
	SignerFailed func(credential, message string)
}

// Set holds the credentials of one provider. It is safe for concurrent use. Its printed form
// is without its contents.
type Set struct {
	scrubber     *Scrubber
	signerFailed func(credential, message string)
	credentials  map[string]*credential
	closed       atomic.Bool
}

// NewSet returns the set of the specs' credentials, with their values from secrets. It reads
// no Secret yet.
func NewSet(secrets Secrets, specs []Spec, options Options) (*Set, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Scrubber == nil {
		options.Scrubber = NewScrubber(options.Clock)
	}
	if options.SignerFailed == nil {
		options.SignerFailed = func(string, string) {}
	}
	s := &Set{scrubber: options.Scrubber, signerFailed: options.SignerFailed, credentials: make(map[string]*credential, len(specs))}
	var errs []error
	for _, spec := range specs {
		// The configuration excludes these; without a type nothing would be applied.
		switch {
		case spec.Type() == "":
			errs = append(errs, fmt.Errorf("credential %q: it has no type, or two", spec.Name))
			continue
		case s.credentials[spec.Name] != nil:
			errs = append(errs, fmt.Errorf("credential %q: there are two of this name", spec.Name))
			continue
		}
		s.credentials[spec.Name] = newCredential(spec, secrets, options, s)
	}
	return s, errors.Join(errs...)
}

// Apply authenticates a request, whose body is passed separately, with the credential of
// that name. It sets headers and parameters of the query, and the body for a template
// credential; nothing else changes. Scope is the credential's purpose; only signers use it.
// Answered, unless nil, is called with this attempt's answer before any other reader: it
// changes the header, and returns the body. The error is an *abi.Error and holds no secret.
func (s *Set) Apply(ctx context.Context, name, scope string, req *http.Request, body []byte) (answered Answered, err error) {
	c := s.credentials[name]
	if c == nil {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("there is no credential %s; add it to the provider's credentials in the HostConfiguration", text.Quote(name))}
	}
	if len(scope) > MaxScopeBytes {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("credential_scope has %d bytes, the limit is %d", len(scope), MaxScopeBytes)}
	}
	answered, err = c.apply(ctx, scope, req, body)
	if err != nil {
		return nil, s.refusal(ctx, name, err)
	}
	return answered, nil
}

// Answered removes secrets from an answer. It is called once, with the status 0 for a
// request without an answer: another login may wait for it.
type Answered = func(status int, header http.Header, body []byte) []byte

// refusal turns an error into one for the provider.
func (s *Set) refusal(ctx context.Context, name string, err error) *abi.Error {
	out := &abi.Error{Code: abi.CodeUnavailable}
	var e *abi.Error
	switch {
	case errors.As(err, &e):
		out.Code, out.RetryAfter = e.Code, e.RetryAfter
	case ctx.Err() != nil:
		out.Code = abi.CodeDeadline
	}
	message := fmt.Sprintf("credential %s: %v", name, err)
	// Invariant S6 (host/SECURITY.md): errors leave the package scrubbed.
	out.Message = text.Line(string(s.scrubber.Scrub([]byte(message))), maxMessageBytes)
	return out
}

// Rejected tells that the cloud answered 401 to a request that Apply authenticated. It
// reports whether another Apply may succeed: a token is renewed, or the Secret has changed
// since.
func (s *Set) Rejected(ctx context.Context, name, scope string) bool {
	c := s.credentials[name]
	return c != nil && c.rejected(ctx, scope)
}

// Scrub replaces the values of the credentials in data; see Scrubber.
func (s *Set) Scrub(data []byte) []byte { return s.scrubber.Scrub(data) }

// ScrubContext replaces the values of the credentials in data; see Scrubber.
func (s *Set) ScrubContext(ctx context.Context, data []byte) ([]byte, error) {
	return s.scrubber.ScrubContext(ctx, data)
}

// Close retires the Set. Running requests still find their credentials; the values are
// scrubbed for another hour.
func (s *Set) Close() {
	s.closed.Store(true)
	s.scrubber.release(s)
}

// String returns the number of credentials.
func (s *Set) String() string { return fmt.Sprintf("%d credentials", len(s.credentials)) }

// Format prints what String returns, whatever the verb.
func (s *Set) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText returns what String returns; JSON and loggers use it.
func (s *Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what String returns.
func (s *Set) LogValue() slog.Value { return slog.StringValue(s.String()) }

// method is the authentication of one type of credential.
type method interface {
	// keys returns the keys of the credential's Secret: required, optional, and public ones.
	keys() keys
	// apply authenticates a request. The scrubber learns computed values before anything is
	// sent.
	apply(ctx context.Context, call *call) error
	// rejected drops the lease for the scope. It reports whether it was renewed or will be.
	rejected(scope string) bool
}

// keys of a Secret.
type keys struct {
	required, optional, public []string
	// all: every key is used, unchanged.
	all bool
}

// call is one use of a credential.
type call struct {
	redacted
	values values
	// version changes with the values.
	version string
	scope   string
	req     *http.Request
	body    []byte
	now     time.Time
	// scheme is the provider's text before a session, as "Bearer ".
	scheme string
	// answered, unless nil, is told the status of the answer, or noAnswer. A method sets it.
	answered func(status int)
}

// noAnswer is the status of a request that failed.
const noAnswer = 0

// credential is one of a Set.
type credential struct {
	redacted
	spec    Spec
	secrets Secrets
	holder  holder
	clock   clock.PassiveClock
	method  method
	// sessions is nil without sessions.
	sessions *sessions

	mu sync.Mutex
	// version of the last used values.
	version string
}

func newCredential(spec Spec, secrets Secrets, options Options, set *Set) *credential {
	h := holder{set, spec.Name}
	c := &credential{spec: spec, secrets: secrets, holder: h, clock: options.Clock, method: newMethod(spec, h, options)}
	if spec.Session != nil {
		c.sessions = newSessions(*spec.Session, h)
	}
	return c
}

func newMethod(spec Spec, h holder, options Options) method {
	switch {
	case spec.Header != nil:
		return header{*spec.Header, h}
	case spec.Basic != nil && spec.Session != nil:
		return basicLogin{newBasic(*spec.Basic, h), newLoginRest(options.Clock)}
	case spec.Basic != nil:
		return newBasic(*spec.Basic, h)
	case spec.Bearer != nil:
		key := spec.Bearer.Key
		setDefault(&key, "token")
		return header{Header{Name: "Authorization", Prefix: "Bearer ", Key: key}, h}
	case spec.Query != nil:
		return query{*spec.Query}
	case spec.OAuth2 != nil:
		return newOAuth2(*spec.OAuth2, h, options.Clock)
	case spec.AWSSigV4 != nil:
		return newSigV4(*spec.AWSSigV4, h)
	case spec.BodyTemplate != nil:
		return newBodyTemplate(*spec.BodyTemplate, options.Clock)
	}
	return newSigner(*spec.Signer, h, options.Clock)
}

func (c *credential) apply(ctx context.Context, scope string, req *http.Request, body []byte) (Answered, error) {
	data, version, err := c.secrets.Get(ctx, c.spec.Secret.Namespace, c.spec.Secret.Name)
	if err != nil {
		return nil, err
	}
	v, err := c.read(data, version)
	if err != nil {
		return nil, err
	}
	call := &call{values: v, version: version, scope: scope, req: req, body: body, now: c.clock.Now()}
	if c.sessions == nil {
		err = c.method.apply(ctx, call)
		return call.withoutSession(), err
	}
	return c.applyWithSession(ctx, call)
}

// applyWithSession adds the session of a request's placeholder, or else the login.
func (c *credential) applyWithSession(ctx context.Context, call *call) (Answered, error) {
	of := c.sessions.take(call)
	login := of == nil
	if template, ok := c.method.(*bodyTemplate); ok {
		login = template.logsIn(call)
	}
	var err error
	switch {
	case login:
		err = c.method.apply(ctx, call)
	case of != nil:
		err = c.sessions.put(call, of)
	}
	return func(status int, header http.Header, body []byte) []byte {
		call.tell(status)
		if status == noAnswer {
			return nil
		}
		return c.sessions.learn(call, login, status, header, body)
	}, err
}

// withoutSession leaves an answer as it is: no sessions are kept.
func (c *call) withoutSession() Answered {
	if c.answered == nil {
		return nil
	}
	return func(status int, _ http.Header, body []byte) []byte {
		c.tell(status)
		return body
	}
}

func (c *call) tell(status int) {
	if c.answered != nil {
		c.answered(status)
	}
}

// read picks the values and has them scrubbed.
func (c *credential) read(data map[string][]byte, version string) (values, error) {
	v, secret, err := pick(c.spec.Name, data, c.method.keys(), c.spec.PublicKeys)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s: %w", c.spec.Secret, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Invariant S9 (host/SECURITY.md): the scrubber knows new values before they are used.
	if c.version != version {
		c.holder.hold("secret", secret...)
		c.version = version
	}
	return v, nil
}

func (c *credential) rejected(ctx context.Context, scope string) bool {
	_, version, err := c.secrets.Get(ctx, c.spec.Secret.Namespace, c.spec.Secret.Name)
	c.mu.Lock()
	changed := err == nil && c.version != "" && c.version != version
	c.mu.Unlock()
	return c.method.rejected(scope) || changed
}

// holder tells the scrubber the values of one credential.
type holder struct {
	set  *Set
	name string
}

// hold replaces the values of one part of the credential.
func (h holder) hold(part string, values ...[]byte) {
	if h.set.closed.Load() {
		h.holdOnce(values...)
		return
	}
	h.set.scrubber.hold(owner{h.set, h.name + "/" + part}, h.name, values...)
}

// holdOnce is for values of a single request.
func (h holder) holdOnce(values ...[]byte) { h.set.scrubber.holdOnce(h.name, values...) }

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// CheckSecret returns why the values of a Secret are unusable for a credential, or nil. It
// sends nothing; the error has no value.
func CheckSecret(spec Spec, data map[string][]byte) error {
	_, _, err := pick(spec.Name, data, newMethod(spec, holder{}, Options{Clock: clock.RealClock{}}).keys(), spec.PublicKeys)
	return err
}
