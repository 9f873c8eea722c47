package validation

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func outOfRange(path *field.Path, value, low, high any) *field.Error {
	return field.Invalid(path, fmt.Sprint(value), fmt.Sprintf("must be from %v to %v", low, high))
}

func validateCredentials(p *v1alpha1.Provider, path *field.Path) (errs field.ErrorList) {
	if len(p.Credentials) > maxCredentials {
		return field.ErrorList{field.TooMany(path, len(p.Credentials), maxCredentials)}
	}
	seen := map[string]bool{}
	for i := range p.Credentials {
		c, at := &p.Credentials[i], path.Index(i)
		errs = append(errs, label(at.Child("name"), c.Name)...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
		errs = append(errs, reference(at.Child("secret"), c.Secret)...)
		errs = append(errs, validateCredential(c, at)...)
		if c.Signer != nil {
			errs = append(errs, validateSigner(c.Signer, p.Source, at.Child("signer"))...)
		}
		if c.BodyTemplate != nil {
			errs = append(errs, validateBodyTemplate(c.BodyTemplate, at.Child("bodyTemplate"))...)
		}
		if c.Session != nil {
			errs = append(errs, validateSession(c, at.Child("session"))...)
		}
	}
	return errs
}

// validateCredential checks that there is exactly one kind, and its fields.
func validateCredential(c *v1alpha1.Credential, path *field.Path) (errs field.ErrorList) {
	kinds := 0
	for _, set := range []bool{
		c.Header != nil, c.Basic != nil, c.Bearer != nil, c.Query != nil,
		c.OAuth2ClientCredentials != nil, c.AWSSigV4 != nil, c.Signer != nil, c.BodyTemplate != nil,
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		errs = append(errs, field.Invalid(path, c.Name,
			"give exactly one of header, basic, bearer, query, oauth2ClientCredentials, awsSigV4, signer and bodyTemplate"))
	}
	keys := map[string]string{}
	for i, key := range c.PublicKeys {
		keys[fmt.Sprintf("publicKeys[%d]", i)] = key
	}
	if len(c.PublicKeys) > maxPublicKeys {
		return append(errs, field.TooMany(path.Child("publicKeys"), len(c.PublicKeys), maxPublicKeys))
	}
	if c.Header != nil {
		errs = append(errs, validateHeader(c.Header, path.Child("header"))...)
		keys["header.key"] = c.Header.Key
	}
	if c.Query != nil {
		parameter := path.Child("query", "parameter")
		if c.Query.Parameter == "" {
			errs = append(errs, field.Required(parameter, ""))
		} else {
			errs = append(errs, checked(parameter, c.Query.Parameter, egress.CheckParameter)...)
		}
		keys["query.key"] = c.Query.Key
	}
	if c.Bearer != nil {
		keys["bearer.key"] = c.Bearer.Key
	}
	if c.Basic != nil {
		keys["basic.usernameKey"], keys["basic.passwordKey"] = c.Basic.UsernameKey, c.Basic.PasswordKey
	}
	if o := c.OAuth2ClientCredentials; o != nil {
		errs = append(errs, validateEndpoint(path.Child("oauth2ClientCredentials", "token"), o.Token, egress.CheckEndpoint)...)
		keys["oauth2ClientCredentials.clientIDKey"], keys["oauth2ClientCredentials.clientSecretKey"] = o.ClientIDKey, o.ClientSecretKey
	}
	if a := c.AWSSigV4; a != nil {
		errs = append(errs, required(path.Child("awsSigV4", "region"), a.Region)...)
		errs = append(errs, required(path.Child("awsSigV4", "service"), a.Service)...)
		keys["awsSigV4.accessKeyIDKey"], keys["awsSigV4.secretAccessKeyKey"] = a.AccessKeyIDKey, a.SecretAccessKeyKey
		if a.SessionTokenKey != "" {
			keys["awsSigV4.sessionTokenKey"] = a.SessionTokenKey
		}
	}
	return append(errs, validateKeys(path, keys)...)
}

func validateHeader(h *v1alpha1.HeaderCredential, path *field.Path) (errs field.ErrorList) {
	if h.Header == "" {
		return field.ErrorList{field.Required(path.Child("header"), "")}
	}
	if !httpguts.ValidHeaderFieldValue(h.Prefix) { // it may hold a secret by mistake
		errs = append(errs, field.Invalid(path.Child("prefix"), "...", "is not valid in a header"))
	}
	return append(errs, checked(path.Child("header"), h.Header, egress.CheckHeader)...)
}

func validateKeys(path *field.Path, keys map[string]string) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		for _, message := range validation.IsConfigMapKey(keys[name]) {
			errs = append(errs, field.Invalid(path.Child(name), keys[name], message))
		}
	}
	return errs
}

func validateSigner(s *v1alpha1.SignerCredential, provider v1alpha1.Source, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, validateSource(s.Source, path.Child("source"))...)
	if sameSource(s.Source, provider) {
		errs = append(errs, field.Invalid(path.Child("source"), "...", "it is the provider's: a signer has a module of its own"))
	}
	tokens := path.Child("tokens")
	if len(s.Tokens) > maxEndpoints {
		return append(errs, field.TooMany(tokens, len(s.Tokens), maxEndpoints))
	}
	for i, e := range s.Tokens {
		errs = append(errs, validateEndpoint(tokens.Index(i), e, egress.CheckPrefix)...)
	}
	return errs
}

func required(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func sameSource(a, b v1alpha1.Source) bool {
	if a.ConfigMap != nil && b.ConfigMap != nil {
		return *a.ConfigMap == *b.ConfigMap
	}
	if a.OCI != nil && b.OCI != nil {
		return a.OCI.Reference == b.OCI.Reference
	}
	return a.Directory != "" && b.Directory != "" && filepath.Clean(a.Directory) == filepath.Clean(b.Directory)
}
