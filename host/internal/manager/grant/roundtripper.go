package grant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// roundTripper is a http.RoundTripper for a library's requests, with the checks
// and bounds of a provider's.
type roundTripper struct{ client *egress.Client }

// RoundTrip sends the request. It returns redirects to the caller.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	request := &abi.HttpRequest{Method: req.Method, Url: req.URL.String()}
	for name, values := range req.Header {
		for _, value := range values {
			request.Headers = append(request.Headers, &abi.HttpHeader{Name: name, Value: value})
		}
	}
	if req.Body != nil {
		body, err := io.ReadAll(io.LimitReader(req.Body, maxTokenBytes))
		if err := errors.Join(err, req.Body.Close()); err != nil {
			return nil, fmt.Errorf("the body of a token request: %w", err)
		}
		request.Body = body
	}
	return r.send(req.Context(), request)
}

func (r roundTripper) send(ctx context.Context, request *abi.HttpRequest) (*http.Response, error) {
	results, err := r.client.Send(ctx, []*abi.HttpRequest{request})
	if err != nil {
		return nil, err
	}
	response := results[0].Response
	if response == nil {
		return nil, errors.New(text.Line(results[0].Error.Message, abi.MaxErrorMessageBytes))
	}
	header := http.Header{}
	for _, h := range response.Headers {
		header.Add(h.Name, h.Value)
	}
	return &http.Response{
		StatusCode: int(response.Status), Status: fmt.Sprintf("%d %s", response.Status, http.StatusText(int(response.Status))),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(response.Body)), ContentLength: int64(len(response.Body)),
	}, nil
}
