package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Reasons of errors, in the CamelCase of Events.
const (
	// ReasonUnavailable: the registry does not answer, or reports its own failure.
	ReasonUnavailable = "RegistryUnavailable"
	// ReasonDenied: the registry demands credentials, or other ones.
	ReasonDenied = "RegistryDenied"
	// ReasonNotFound: the registry has no such image.
	ReasonNotFound = "ImageNotFound"
	// ReasonDigestMismatch: the content does not match its digest.
	ReasonDigestMismatch = "ImageDigestMismatch"
	// ReasonInvalid: the image has no module in a known form.
	ReasonInvalid = "ImageInvalid"
	// ReasonNotKept: the disk has no room for its module.
	ReasonNotKept = "ImageNotKept"
)

// Error is the reason why an image yields no module.
type Error struct {
	// Reason is one of the Reason constants, or of package provenance.
	Reason string
	Err    error
}

// Error says what is wrong, where, and how to mend it.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Passing reports whether the error concerns the connection, not the image or the manager:
// it may disappear by itself.
func (e *Error) Passing() bool {
	switch e.Reason {
	case ReasonUnavailable, ReasonDenied, ReasonNotFound, ReasonDigestMismatch:
		return true
	}
	return false
}

func invalid(format string, args ...any) *Error {
	return &Error{ReasonInvalid, fmt.Errorf(format, args...)}
}

// maxWords bounds the quotation of a registry's answer, in bytes.
const maxWords = 256

// explain words an error for people, without secrets: answers of a token server are never
// quoted.
func (c *Client) explain(err error) error {
	var known *Error
	var untrusted *provenance.Error
	var refused *refusedError
	var answer *transport.Error
	var certificate *tls.CertificateVerificationError
	image := "image " + c.ref.String()
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return &Error{known.Reason, fmt.Errorf("%s: %w", image, known.Err)}
	case errors.As(err, &untrusted):
		return &Error{untrusted.Reason, fmt.Errorf("%s: %w", image, untrusted)}
	case errors.As(err, &refused):
		return &Error{ReasonUnavailable, fmt.Errorf("%s: %w", image, refused)}
	case errors.As(err, &certificate):
		return &Error{ReasonUnavailable, fmt.Errorf("%s: the registry %s has a certificate that does not verify: %s; give that of its authority (source.oci.caBundle)", image, c.ref.Host(), text.Line(certificate.Err.Error(), maxWords))}
	case errors.As(err, &answer):
		return c.answered(image, answer)
	case errors.Is(err, errTooLong):
		return invalid("%s: %w", image, err)
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{ReasonUnavailable, fmt.Errorf("%s: the registry %s takes too long", image, c.ref.Host())}
	case strings.Contains(err.Error(), "no token in bearer response"):
		return &Error{ReasonUnavailable, fmt.Errorf("%s: the token server of the registry %s answers without a token", image, c.ref.Host())}
	case strings.Contains(err.Error(), "does not match requested digest"):
		return &Error{ReasonDigestMismatch, fmt.Errorf("%s: the registry %s sends another manifest than the digest names: push the image again, or correct the reference", image, c.ref.Host())}
	}
	return &Error{ReasonUnavailable, fmt.Errorf("%s: the registry %s cannot be asked: %s", image, c.ref.Host(), text.Line(words(err), maxWords))}
}

// words drops local ports: equal failures get equal words.
func words(err error) string {
	var network *net.OpError
	if errors.As(err, &network) && network.Addr != nil {
		return fmt.Sprintf("%s %s: %v", network.Op, network.Addr, network.Err)
	}
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// repeatable reports whether an answer may be quoted: not a token server's, and none that
// contains a credential.
func (c *Client) repeatable(e *transport.Error) bool {
	// Invariant I4 (host/SECURITY.md): Events have more readers than Secrets.
	r := e.Request
	if r == nil || r.URL.Host != c.guard.registry || !strings.HasPrefix(r.URL.Path, "/v2/") {
		return false
	}
	sent := strings.Fields(r.Header.Get("Authorization")) // "Bearer x", "Basic x"
	if _, password, ok := r.BasicAuth(); ok {
		sent = append(sent, password)
	}
	return !slices.ContainsFunc(e.Errors, func(d transport.Diagnostic) bool {
		return slices.ContainsFunc(sent, func(secret string) bool {
			return !strings.EqualFold(secret, "Basic") && !strings.EqualFold(secret, "Bearer") && secret != "" && strings.Contains(string(d.Code)+d.Message, secret)
		})
	})
}

// answered words an answer with an error status.
func (c *Client) answered(image string, e *transport.Error) error {
	said := ""
	if c.repeatable(e) {
		for _, d := range e.Errors {
			said += " " + text.Line(string(d.Code)+": "+d.Message, maxWords/2)
		}
	}
	if said != "" {
		said = " " + text.Line(said, maxWords)
	}
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &Error{ReasonDenied, fmt.Errorf("%s: the registry %s denies it (%d%s): %s", image, c.ref.Host(), e.StatusCode, said, c.credentials)}
	case http.StatusNotFound:
		return &Error{ReasonNotFound, fmt.Errorf("%s: the registry %s has no such image (%d%s): push it (ccmctl push), or correct the reference", image, c.ref.Host(), e.StatusCode, said)}
	}
	return &Error{ReasonUnavailable, fmt.Errorf("%s: the registry %s answers with status %d%s", image, c.ref.Host(), e.StatusCode, said)}
}
