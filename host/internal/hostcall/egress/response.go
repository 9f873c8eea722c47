package egress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

var errTooLarge = errors.New("the response is too large")

// answer is a response for the provider, with the host's private parts.
type answer struct {
	response *abi.HttpResponse
	header   http.Header // as received, with secrets
	charged  int64
}

// refund returns the room of a dropped answer.
func (a *answer) refund(bytesLeft *atomic.Int64) {
	if a != nil {
		bytesLeft.Add(a.charged)
	}
}

// hashName matches names of hashes.
var hashName = regexp.MustCompile(`(?i)etag|digest|checksum|hash|md5|crc|sha-?[1-9]`)

// meter charges responses to the batch's shared bound.
type meter struct {
	left  *atomic.Int64
	taken int64
}

func (m *meter) take(n int) error {
	m.taken += int64(n)
	// Invariant E6 (host/SECURITY.md): decompressed bytes count against the whole batch.
	if m.left.Add(-int64(n)) < 0 {
		return fmt.Errorf("%w: ask for less at once, in pages", errTooLarge)
	}
	return nil
}

// readAnswer reads a response within the meter's bound.
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
	if err := checkWhole(resp); err != nil {
		return nil, err
	}
	if err := c.charge(resp.Header, m); err != nil {
		return nil, err
	}
	received, decoded, err := c.readBody(resp, m, call.decode)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if err := checkLetters(resp, received); err != nil {
		return nil, err
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
	if len(received) == 0 || !bytes.Equal(clean, received) {
		dropHashes(header)
	}
	if header.Get("Content-Length") != "" && (decoded || len(clean) != len(received)) {
		header.Set("Content-Length", strconv.Itoa(len(clean)))
	}
	return &answer{header: resp.Header, response: &abi.HttpResponse{
		Status: int32(resp.StatusCode), Headers: c.responseHeaders(header), Body: clean}}, nil
}

// dropHashes removes possible hashes of a scrubbed or absent body (HEAD, 304): with a hash a
// secret could be guessed without requests.
func dropHashes(header http.Header) {
	for name := range header {
		if hashName.MatchString(name) {
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

// readBody reads and, if the host asked for gzip, decodes. Both compressed and decompressed
// bytes are bounded: empty gzip members may follow each other for ever.
func (c *Client) readBody(resp *http.Response, m *meter, decode bool) (body []byte, decoded bool, err error) {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch {
	case resp.Body == http.NoBody || resp.Request.Method == http.MethodHead:
		return nil, false, nil
	case decode && encoding == "gzip":
		// Invariant E6 (host/SECURITY.md): input is bounded before it is decompressed.
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
	// Invariant S2 (host/SECURITY.md): an unsearchable response is not handed on.
	case encoding != "" && encoding != "identity":
		return nil, false, fmt.Errorf("%w: its encoding is %s", errUnsearchable, text.Quote(encoding))
	}
	body, err = io.ReadAll(&meteredReader{resp.Body, m})
	return body, false, err
}

// responseHeaders sorts the headers by name. Invalid UTF-8 becomes U+FFFD, since the ABI's
// strings require UTF-8.
func (c *Client) responseHeaders(header http.Header) []*abi.HttpHeader {
	var out []*abi.HttpHeader
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			out = append(out, &abi.HttpHeader{Name: c.scrubString(name), Value: strings.ToValidUTF8(c.scrubString(value), "\uFFFD")})
		}
	}
	return out
}

// meteredReader charges the bytes it reads.
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

// limitedReader fails beyond left bytes.
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
