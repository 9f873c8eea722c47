package egress

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// refusedHeader says why a request must not have a header, or "". Servers that
// hand headers on as variables of the environment (CGI, WSGI, PHP) take _ for -,
// and some every other character.
func refusedHeader(name string) string {
	// Invariant E2 (host/SECURITY.md): of a header that makes another request no spelling passes.
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	switch name {
	case "host":
		return "the host is that of the URL"
	case "content-length":
		return "it is computed from the body"
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade",
		"http2-settings", "expect", "proxy-authorization", "proxy-authenticate":
		return "it controls the connection, which belongs to the host"
	case "x-http-method", "x-http-method-override", "x-method-override", "x-original-method":
		// Microsoft, Google, IBM, and frameworks (Rails, Symfony, Express): a
		// granted POST would be a DELETE.
		return "some servers read it as the method: grants are compared with the real one"
	case "x-original-url", "x-original-uri", "x-original-path", "x-rewrite-url", "x-override-url", "x-request-uri",
		"x-replaced-path", "x-envoy-original-path", "x-proxy-url", "x-http-destinationurl":
		// IIS and Symfony, nginx's auth_request, Traefik, Envoy: behind them the
		// request is for this URL.
		return "some servers read it as the URL: grants are compared with the real one"
	case "x-host", "x-original-host", "x-envoy-original-host", "x-http-host-override", "x-backend-host", "x-server-name":
		return "some servers read it as the host: grants are compared with the real one"
	case "forwarded", "x-real-ip", "client-ip", "x-client-ip", "x-cluster-client-ip", "x-originating-ip", "x-remote-ip", "x-remote-addr",
		"true-client-ip", "cf-connecting-ip", "fastly-client-ip", "proxy", "x-script-name":
		// Proxy sets HTTP_PROXY in CGI programs.
		return "proxies say it of their clients, and a provider is no proxy"
	}
	if strings.HasPrefix(name, "x-forwarded") { // -Host, -Prefix, -Uri, -Method, -For, ...
		return "proxies say it of their clients, and a provider is no proxy"
	}
	return ""
}

// refusedParameter reports whether servers may take a parameter of the query
// for the method (Symfony, Laravel and others); PHP reads some characters as _.
// What a body holds is between the provider and a URL that it was granted.
func refusedParameter(name string) bool {
	name = strings.ToLower(strings.NewReplacer(".", "_", " ", "_", "-", "_", "[", "_").Replace(name))
	return name == "_method" || name == "x_http_method_override" || name == "x_http_method"
}

// checkHeaders refuses headers that could change what the grant was asked for,
// or with a credential get it back in pieces. Its errors hold no values.
func checkHeaders(headers []*abi.HttpHeader, credential bool) error {
	if len(headers) > maxRequestHeaders {
		return fmt.Errorf("%d headers, the limit is %d", len(headers), maxRequestHeaders)
	}
	size := 0
	for _, h := range headers {
		name, value := h.GetName(), h.GetValue()
		size += len(name) + len(value)
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("header name %s is not valid", text.Quote(name))
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("the value of header %s is not valid", text.Quote(name))
		}
		if why := refusedHeader(name); why != "" {
			return fmt.Errorf("header %s must not be set: %s", text.Quote(name), why)
		}
		if credential && http.CanonicalHeaderKey(name) == "Range" {
			return fmt.Errorf("header %s must not be set: with a credential only whole responses are read", text.Quote(name))
		}
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaderBytes)
	}
	return nil
}
