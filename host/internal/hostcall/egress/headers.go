package egress

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// refusedHeader says why a request must not have a header, or "". Servers that pass headers
// as environment variables (CGI, WSGI, PHP) take _ for -, and some every other character.
func refusedHeader(name string) string {
	// Invariant E2 (host/SECURITY.md): a header that changes the request is refused in every
	// spelling.
	name = plainName(name)
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
	if partial(name) {
		return "secrets are found in whole answers only: ask for all of it at once, without this header"
	}
	return ""
}

// plainName is a name as servers may read it.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// refusedParameter reports whether servers may take a query parameter for the method
// (Symfony, Laravel and others); PHP reads some characters as _. A body concerns only the
// provider and its granted URL.
func refusedParameter(name string) bool {
	name = strings.ToLower(strings.NewReplacer(".", "_", " ", "_", "-", "_", "[", "_").Replace(name))
	return name == "_method" || name == "x_http_method_override" || name == "x_http_method"
}

// checkHeaders refuses headers that could change the granted request, or return a secret in
// pieces. Its errors hold no values.
func checkHeaders(method string, headers []*abi.HttpHeader) error {
	if len(headers) > maxRequestHeaders {
		return fmt.Errorf("%d headers, the limit is %d", len(headers), maxRequestHeaders)
	}
	size := 0
	for _, h := range headers {
		name, value := h.Name, h.Value
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
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaderBytes)
	}
	return checkConditions(method, headerOf(headers))
}
