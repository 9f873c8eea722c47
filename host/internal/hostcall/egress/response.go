package egress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

var (
	errTooLarge = errors.New("the response is too large")
	errEncoding = errors.New("the response has an encoding that was not requested")
)

// answer is a response as the provider gets it, and what only the host may
// know of it.
type answer struct {
	response *abi.HttpResponse
	header   http.Header // as it was received, secrets and all
	charged  int64
}

// refund gives back the room of an answer that is dropped.
func (a *answer) refund(bytesLeft *atomic.Int64) {
	if a != nil {
		bytesLeft.Add(a.charged)
	}
}

// meter charges what the responses of a batch take to their common bound.
type meter struct {
	left  *atomic.Int64
	taken int64
}

func (m *meter) take(n int) error {
	m.taken += int64(n)
	// Invariant E6 (host/SECURITY.md): what is read, after it is unpacked, counts against the whole
	// batch.
	if m.left.Add(-int64(n)) < 0 {
		return fmt.Errorf("%w: ask for less at once, in pages", errTooLarge)
	}
	return nil
}

// readAnswer reads a response as far as the meter allows.
func (c *Client) readAnswer(resp *http.Response, m *meter, call *call) (*answer, error) {
	a, err := c.readWhole(resp, m, call)
	if err != nil {
		m.left.Add(m.taken)
		return nil, err
	}
	a.charged = m.taken
	return a, nil
}

func (c *Client) readWhole(resp *http.Response, m *meter, call *call) (*answer, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.New("the server switched protocols without a request for it")
	}
	if err := c.charge(resp.Header, m); err != nil {
		return nil, err
	}
	received, decoded, err := c.readBody(resp, m, call.decode)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	body := received
	if call.answered != nil {
		body = call.answered(resp.StatusCode, resp.Header, received)
		call.answered = nil
	}
	// Invariant S2 (host/SECURITY.md): the provider gets the body and the headers of a response
	// only scrubbed.
	clean, err := c.scrub(resp.Request.Context(), body)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if err := m.take(len(clean) - len(received)); err != nil {
		return nil, err
	}
	header := resp.Header.Clone()
	if decoded {
		header.Del("Content-Encoding")
	}
	if !bytes.Equal(clean, received) {
		dropHashes(header)
	}
	if header.Get("Content-Length") != "" && (decoded || len(clean) != len(received)) {
		header.Set("Content-Length", strconv.Itoa(len(clean)))
	}
	return &answer{header: resp.Header, response: &abi.HttpResponse{
		Status: int32(resp.StatusCode), Headers: c.responseHeaders(header), Body: clean}}, nil
}

// dropHashes removes what may be a hash of a body that was scrubbed: it holds for
// the body no more, and would let the secret be guessed without a request.
func dropHashes(header http.Header) {
	for name := range header {
		switch lower := strings.ToLower(name); {
		case lower == "etag", lower == "content-md5", strings.HasSuffix(lower, "digest"),
			strings.Contains(lower, "checksum"), strings.HasSuffix(lower, "-hash"):
			delete(header, name)
		}
	}
}

func (c *Client) charge(header http.Header, m *meter) error {
	count := 0
	for name, values := range header {
		count += len(values)
		for _, value := range values {
			if err := m.take(len(name) + len(value)); err != nil {
				return err
			}
		}
	}
	if count > maxResponseHeaders {
		return fmt.Errorf("%w: %d headers, the limit is %d", errTooLarge, count, maxResponseHeaders)
	}
	return nil
}

// readBody reads and, where the host asked for gzip, decodes. Both what comes
// and what becomes of it is bounded: a member of nothing follows another for
// ever.
func (c *Client) readBody(resp *http.Response, m *meter, decode bool) (body []byte, decoded bool, err error) {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch {
	case resp.Body == http.NoBody || resp.Request.Method == http.MethodHead:
		return nil, false, nil
	case decode && encoding == "gzip":
		// Invariant E6 (host/SECURITY.md): what comes in is bounded before it is unpacked.
		wire := &limitedReader{resp.Body, c.options.MaxBatchBytes}
		z, err := gzip.NewReader(wire)
		if errors.Is(err, io.EOF) { // an empty body
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		body, err = io.ReadAll(&meteredReader{z, m})
		return body, true, err
	// Invariant S2 (host/SECURITY.md): what cannot be searched is not handed on.
	case c.options.Credentials != nil && encoding != "" && encoding != "identity":
		return nil, false, fmt.Errorf("%w: %s cannot be searched for secrets", errEncoding, text.Quote(encoding))
	}
	body, err = io.ReadAll(&meteredReader{resp.Body, m})
	return body, false, err
}

// responseHeaders sorts the headers by name. What is not UTF-8 becomes U+FFFD,
// since no string of the ABI may hold it.
func (c *Client) responseHeaders(header http.Header) []*abi.HttpHeader {
	var out []*abi.HttpHeader
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			out = append(out, &abi.HttpHeader{Name: c.scrubString(name), Value: strings.ToValidUTF8(c.scrubString(value), "\uFFFD")})
		}
	}
	return out
}

// meteredReader charges what is read.
type meteredReader struct {
	r io.Reader
	m *meter
}

func (b *meteredReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if tooMuch := b.m.take(n); tooMuch != nil {
		return 0, tooMuch
	}
	return n, err
}

// limitedReader fails when more is read than left.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
