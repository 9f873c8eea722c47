package credential

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of a credential's additions to a request.
const (
	maxHeaders     = 32
	maxHeaderBytes = 16 << 10
	maxParams      = 32
	maxQueryBytes  = 8 << 10 // of the added parameters
)

// checkHeaderName refuses headers about the connection, and those that the grant was checked
// with.
func checkHeaderName(name string) error {
	if !httpguts.ValidHeaderFieldName(name) || len(name) > 256 {
		return fmt.Errorf("header name %s is not valid", text.Quote(name))
	}
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Te", "Trailer",
		"Upgrade", "Http2-Settings", "Expect", "Proxy-Authorization", "Proxy-Authenticate":
		return fmt.Errorf("header %q must not be set: it is the host's", name)
	}
	return nil
}

// checkHeaders bounds headers. Its errors hold no values.
func checkHeaders(headers []*abi.HttpHeader) error {
	if len(headers) > maxHeaders {
		return fmt.Errorf("%d headers, the limit is %d", len(headers), maxHeaders)
	}
	size := 0
	for _, h := range headers {
		if err := checkHeaderName(h.Name); err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(h.Value) {
			return fmt.Errorf("the value of header %q is not valid in a header", h.Name)
		}
		size += len(h.Name) + len(h.Value)
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaderBytes)
	}
	return nil
}

// setHeaders sets checked headers in place of those with the same names.
func setHeaders(req *http.Request, headers []*abi.HttpHeader) {
	for _, h := range headers {
		req.Header.Del(h.Name)
	}
	for _, h := range headers {
		req.Header.Add(h.Name, h.Value)
	}
}

// setHeader sets one header to a possibly secret value.
func setHeader(req *http.Request, name, value string) error {
	h := []*abi.HttpHeader{{Name: name, Value: value}}
	if err := checkHeaders(h); err != nil {
		return err
	}
	setHeaders(req, h)
	return nil
}

// checkParams bounds parameters of a query.
func checkParams(params []*abi.HttpHeader) error {
	if len(params) > maxParams {
		return fmt.Errorf("%d parameters of the query, the limit is %d", len(params), maxParams)
	}
	for _, p := range params {
		if p.Name == "" {
			return errors.New("a parameter of the query has no name")
		}
	}
	return nil
}

// addParams appends parameters to the query. The existing query stays unchanged: a signature
// may cover it.
func addParams(req *http.Request, params []*abi.HttpHeader) error {
	var out strings.Builder
	out.WriteString(req.URL.RawQuery)
	for _, p := range params {
		if out.Len() > 0 {
			out.WriteByte('&')
		}
		out.WriteString(escapeQuery(p.Name) + "=" + escapeQuery(p.Value))
	}
	// Only the additions: with a bound on the whole query the provider could measure the secret.
	if size := out.Len() - len(req.URL.RawQuery); size > maxQueryBytes {
		return &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("the credential adds %d bytes to the query, the limit is %d", size, maxQueryBytes)}
	}
	// A copy, since retries of a request may share the URL.
	u := *req.URL
	u.RawQuery = out.String()
	req.URL = &u
	return nil
}

// escapeQuery escapes spaces in the form that every server understands.
func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// dropParam removes a parameter from the query, and leaves the others unchanged.
func dropParam(req *http.Request, name string) {
	if req.URL.RawQuery == "" {
		return
	}
	var kept []string
	for pair := range strings.SplitSeq(req.URL.RawQuery, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); err != nil || decoded != name {
			kept = append(kept, pair)
		}
	}
	u := *req.URL
	u.RawQuery = strings.Join(kept, "&")
	req.URL = &u
}
