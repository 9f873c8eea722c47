package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const formType = "application/x-www-form-urlencoded"

// parametersOf returns the parameters of query and form together, as CloudStack
// reads them. It refuses ambiguous ones: the signature would be wrong, or the
// list of commands circumvented.
func parametersOf(req *abi.HttpRequest) (map[string]string, error) {
	_, query, _ := strings.Cut(req.Url, "?")
	query, _, _ = strings.Cut(query, "#")
	parameters := map[string]string{}
	if err := add(parameters, "query", query); err != nil {
		return nil, err
	}
	if len(req.Body) == 0 {
		return parameters, nil
	}
	if err := checkForm(req); err != nil {
		return nil, err
	}
	return parameters, add(parameters, "form", string(req.Body))
}

func checkForm(req *abi.HttpRequest) error {
	if req.Method != "POST" { //nolint:usestdlibvars // TinyGo has no net/http
		return sdk.Invalidf("a %.20s request with a body cannot be signed: use POST with a form", req.Method)
	}
	found := false
	for _, h := range req.Headers {
		if !strings.EqualFold(h.Name, "Content-Type") {
			continue
		}
		mediaType, _, _ := strings.Cut(h.Value, ";")
		if found || !strings.EqualFold(strings.TrimSpace(mediaType), formType) {
			return sdk.Invalidf("a body of the type %.100q cannot be signed: set Content-Type once, to %s", h.Value, formType)
		}
		found = true
	}
	if !found {
		return sdk.Invalidf("a body without a type cannot be signed: set Content-Type to %s", formType)
	}
	return nil
}

// add adds the parameters of encoded text. Errors contain no values, since
// those of some commands are passwords.
func add(parameters map[string]string, where, encoded string) error {
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return sdk.Invalidf("the %s of the request is not well-formed: write each parameter as name=value, percent-encoded, with & between", where)
	}
	for name, all := range values {
		_, known := parameters[name]
		switch {
		case known || len(all) > 1:
			return sdk.Invalidf("the parameter %.100q stands twice: give each once", name)
		case !isName(name):
			return sdk.Invalidf("%.100q cannot be the name of a parameter", name)
		case isOwn(name):
			return sdk.Invalidf("the request has the parameter %s, which only the signer adds: leave it out", name)
		case !utf8.ValidString(all[0]):
			return sdk.Invalidf("the parameter %s is not UTF-8", name)
		}
		parameters[name] = all[0]
	}
	return nil
}

// isOwn ignores case, as CloudStack does.
func isOwn(name string) bool {
	return slices.ContainsFunc([]string{"apikey", "signature", "signatureversion", "expires"}, func(own string) bool {
		return strings.EqualFold(name, own)
	})
}

// isName accepts names that are the same in the signature, where they are not
// encoded, and in the request.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("&=+%#\"<>", r)
	})
}

// signatureOf is CloudStack's: its server sorts the original names, upper case
// first, and only then lowers the case of everything.
func signatureOf(parameters map[string]string, secretKey string) string {
	var text strings.Builder
	for i, name := range slices.Sorted(maps.Keys(parameters)) {
		if i > 0 {
			text.WriteByte('&')
		}
		text.WriteString(name + "=" + encoded(parameters[name]))
	}
	mac := hmac.New(sha1.New, []byte(secretKey))
	mac.Write([]byte(strings.ToLower(text.String())))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// encoded is the percent-encoding of Java's URLEncoder, which CloudStack uses,
// with %20 for a space.
func encoded(value string) string {
	return strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E").Replace(url.QueryEscape(value))
}
