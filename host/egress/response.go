package egress

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

var errTooLarge = errors.New("the response is too large")

// readResponse reads a response as far as bytesLeft, which the responses of a
// batch share, allows.
func readResponse(resp *http.Response, bytesLeft *atomic.Int64) (*abi.HttpResponse, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.New("the server switched protocols, which nobody asked for")
	}
	headers, err := responseHeaders(resp.Header, bytesLeft)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(&boundedReader{resp.Body, bytesLeft})
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return &abi.HttpResponse{Status: int32(resp.StatusCode), Headers: headers, Body: body}, nil
}

// responseHeaders sorts the headers by name. What is not UTF-8 becomes U+FFFD,
// since no string of the ABI may hold it.
func responseHeaders(header http.Header, bytesLeft *atomic.Int64) ([]*abi.HttpHeader, error) {
	var out []*abi.HttpHeader
	size := int64(0)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			out = append(out, &abi.HttpHeader{Name: name, Value: strings.ToValidUTF8(value, "\uFFFD")})
			size += int64(len(name) + len(value))
		}
	}
	if len(out) > maxResponseHeaders {
		return nil, fmt.Errorf("%w: %d headers, the limit is %d", errTooLarge, len(out), maxResponseHeaders)
	}
	if bytesLeft.Add(-size) < 0 {
		return nil, errTooLarge
	}
	return out, nil
}

// boundedReader fails when more is read than bytesLeft.
type boundedReader struct {
	r         io.Reader
	bytesLeft *atomic.Int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.bytesLeft.Add(-int64(n)) < 0 {
		return 0, fmt.Errorf("%w: ask for less at once, in pages", errTooLarge)
	}
	return n, err
}
