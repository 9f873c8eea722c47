package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// RoundTrip sends a request by the host. An error of the host is a failed
// connection: no made-up answer could pass for the cloud's.
func (b *bridge) RoundTrip(r *http.Request) (*http.Response, error) {
	request, err := b.request(r)
	if err != nil {
		return nil, err
	}
	response, err := b.send(r.Context(), request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Redacted(), err)
	}
	return httpResponse(r, response), nil
}

// connectionHeaders belong to a connection, or are set by the host, which also
// decompresses answers.
var connectionHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// authentication headers stay in the guest if the host adds a credential.
var authentication = []string{
	"Authorization", "Cookie", "X-Amz-Security-Token", "X-Api-Key", "X-Auth-Token", "X-Vault-Token", "Private-Token",
}

// leavesOut reports whether a header stays in the guest. The host's placeholder
// is in a cookie.
func (r *Rule) leavesOut(header string) bool {
	if r.Credential == "" || r.Session && header == "Cookie" {
		return false
	}
	return slices.Contains(authentication, header)
}

func (b *bridge) request(r *http.Request) (*abi.HttpRequest, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	u := *r.URL
	if u.Host == "" {
		u.Host = r.Host
	}
	u.User = nil // a client has made it a header
	rule := b.settings.rule(&u)
	if rule.Upgrade && u.Scheme == "http" {
		u.Scheme = "https"
	}
	request := &abi.HttpRequest{Method: r.Method, Url: u.String(), Body: body, Credential: rule.Credential}
	if request.Method == "" {
		request.Method = http.MethodGet
	}
	for name, values := range r.Header {
		if slices.Contains(connectionHeaders, name) || rule.leavesOut(name) {
			continue
		}
		for _, value := range values {
			request.Headers = append(request.Headers, &abi.HttpHeader{Name: name, Value: value})
		}
	}
	if deadline, ok := r.Context().Deadline(); ok {
		request.TimeoutMs = max(1, time.Until(deadline).Milliseconds())
	}
	return request, nil
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }() // it was read, or its error is returned
	body, err := io.ReadAll(io.LimitReader(r.Body, abi.MaxHostCallBytes+1))
	if err == nil && len(body) > abi.MaxHostCallBytes {
		err = fmt.Errorf("the body of %s %s has more than %d bytes", r.Method, r.URL.Redacted(), abi.MaxHostCallBytes)
	}
	return body, err
}

func httpResponse(r *http.Request, from *abi.HttpResponse) *http.Response {
	response := &http.Response{
		StatusCode: int(from.Status), Status: fmt.Sprintf("%d %s", from.Status, http.StatusText(int(from.Status))),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(from.Body)), ContentLength: int64(len(from.Body)),
	}
	for _, header := range from.Headers {
		if name := http.CanonicalHeaderKey(header.Name); !slices.Contains(connectionHeaders, name) {
			response.Header.Add(name, header.Value)
		}
	}
	return response
}
