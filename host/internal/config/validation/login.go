package validation

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

const (
	maxTemplateHeaders  = 8
	maxHeaderValueBytes = 1 << 10
	maxFieldBytes       = 256
)

// placeholder has only characters with one spelling in XML, JSON, forms and URLs.
var placeholder = regexp.MustCompile(`^[A-Za-z0-9._-]{8,128}$`)

func validateBodyTemplate(b *v1alpha1.BodyTemplate, path *field.Path) (errs field.ErrorList) {
	if !placeholder.MatchString(b.Placeholder) { // it may be the secret by mistake
		errs = append(errs, field.Invalid(path.Child("placeholder"), "...", "must be 8 to 128 letters, digits, '.', '_' and '-'"))
	}
	errs = append(errs, checked(path.Child("method"), b.Method, egress.CheckMethod)...)
	errs = append(errs, checked(path.Child("path"), b.Path, egress.CheckPathPrefix)...)
	errs = append(errs, validateTemplateHeaders(b.Headers, path.Child("headers"))...)
	if err := bodytemplate.CheckContentType(b.ContentType); err != nil {
		return append(errs, field.Invalid(path.Child("contentType"), b.ContentType, err.Error()))
	}
	if !httpguts.ValidHeaderFieldValue(b.ContentType) {
		errs = append(errs, field.Invalid(path.Child("contentType"), b.ContentType, "is not valid in a header"))
	}
	body := path.Child("body")
	switch _, err := bodytemplate.Parse(b.ContentType, b.Body); {
	case err != nil: // it may hold a secret by mistake
		errs = append(errs, field.Invalid(body, "...", err.Error()))
	case b.Placeholder != "" && strings.Contains(b.Body, b.Placeholder):
		errs = append(errs, field.Invalid(body, "...", "it holds the placeholder, which is for the provider; write $(KEY) for a key of the Secret"))
	}
	return errs
}

func validateTemplateHeaders(headers map[string]string, path *field.Path) (errs field.ErrorList) {
	if len(headers) > maxTemplateHeaders {
		return field.ErrorList{field.TooMany(path, len(headers), maxTemplateHeaders)}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := path.Key(name)
		errs = append(errs, checked(at, name, egress.CheckHeader)...)
		if canonical := http.CanonicalHeaderKey(name); strings.HasPrefix(canonical, "Content-") || canonical == "Cookie" {
			errs = append(errs, field.Invalid(at, name, "it is set by the host; contentType is the one of the body"))
		}
		if value := headers[name]; len(value) > maxHeaderValueBytes || !httpguts.ValidHeaderFieldValue(value) {
			errs = append(errs, field.Invalid(at, "...", "its value is not valid in a header, or has more than 1024 bytes"))
		}
	}
	return errs
}

func validateSession(c *v1alpha1.Credential, path *field.Path) (errs field.ErrorList) {
	s := c.Session
	if c.BodyTemplate == nil && c.Basic == nil {
		errs = append(errs, field.Forbidden(path, "it goes with bodyTemplate and basic"))
	}
	if (s.Cookie != "") == (s.Header != "") {
		return append(errs, field.Invalid(path, "", "give either cookie, or header and field"))
	}
	if s.Cookie != "" && !httpguts.ValidHeaderFieldName(s.Cookie) {
		errs = append(errs, field.Invalid(path.Child("cookie"), s.Cookie, "it is not the name of a cookie"))
	}
	if s.Header != "" {
		errs = append(errs, checked(path.Child("header"), s.Header, egress.CheckHeader)...)
		if http.CanonicalHeaderKey(s.Header) == "Cookie" {
			errs = append(errs, field.Invalid(path.Child("header"), s.Header, "it has more than the session; give cookie"))
		}
	}
	switch {
	case (s.Header != "") != (s.Field != ""):
		errs = append(errs, field.Invalid(path.Child("field"), s.Field, "it goes with header, and header with it"))
	case len(s.Field) > maxFieldBytes:
		errs = append(errs, field.TooLong(path.Child("field"), "", maxFieldBytes))
	}
	return errs
}
