package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// errUnsearchable is the error of an answer that may hold a secret in a form that the
// scrubber cannot find.
var errUnsearchable = errors.New("the response cannot be searched for secrets")

// partial reports whether a header, in lower case and with hyphens, is of a kind that makes
// servers answer in parts, as a difference, by a hash, or in another charset: judged by its
// words, as vendors have their own (x-ms-range). Compression is requested by the host
// (negotiate).
func partial(name string) bool {
	switch name {
	case "accept-encoding", "content-encoding": // the host's own; about the provider's body
		return false
	}
	return slices.ContainsFunc(strings.Split(name, "-"), func(word string) bool {
		switch word {
		case "range", "ranges", "encoding", "encodings", "charset", "dictionary", "delta", "im", "want":
			return true
		}
		return false
	})
}

// oneTag is one entity tag, quoted or as Neutron's revision_number=1, or *.
var oneTag = regexp.MustCompile(`^\s*(?:(?:W/)?"[^"]*"|[^",]*)\s*$`)

// checkConditions lets a write depend on one state of the object. On a read, a condition
// would test hashes of the unscrubbed answer, one for each tag.
func checkConditions(method string, header http.Header) error {
	for name, values := range header {
		lower := plainName(name)
		if words := strings.Split(lower, "-"); !slices.Contains(words, "if") && !slices.Contains(words, "unless") {
			continue
		}
		switch lower {
		case "if-match", "if-none-match", "if-modified-since", "if-unmodified-since":
		default:
			return fmt.Errorf("header %s must not be set: of conditions only If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since are sent", text.Quote(name))
		}
		switch method {
		case http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete:
		default:
			return fmt.Errorf("header %s must not be set: conditions are for PUT, PATCH, POST and DELETE; read without it", text.Quote(name))
		}
		if strings.HasSuffix(lower, "match") && (len(values) > 1 || !oneTag.MatchString(values[0])) {
			return fmt.Errorf("header %s must have one entity tag", text.Quote(name))
		}
	}
	return nil
}

var (
	// charsetOf finds a type's charset, whatever else is wrong with it.
	charsetOf = regexp.MustCompile(`(?i)charset\s*=\s*["']?([^"';,\s]*)`)
	// asciiCharset are those that contain ASCII unchanged.
	asciiCharset = regexp.MustCompile(`(?i)^(utf-?8|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|windows-125\d)$`)
	// textType are types with one byte per letter; "" is no type.
	textType = regexp.MustCompile(`(?i)^\s*($|text/|[^;]*(json|xml|yaml|html|urlencoded))`)
)

// checkWhole refuses partial answers: only the statuses listed here are whole.
//
// Invariant S14 (host/SECURITY.md): a partial answer is never handed on.
func checkWhole(resp *http.Response) error {
	kind := strings.Join(resp.Header.Values("Content-Type"), ",")
	switch status := resp.StatusCode; {
	case status < 200, status > 599, status < 300 && !slices.Contains(wholeStatuses(), status):
		return fmt.Errorf("%w: the status %d is not one of a whole answer; ask for all of it at once", errUnsearchable, status)
	case status != http.StatusRequestedRangeNotSatisfiable && resp.Header.Get("Content-Range") != "",
		strings.Contains(strings.ToLower(kind), "byteranges"):
		return fmt.Errorf("%w: it is a part; ask for all of it at once", errUnsearchable)
	}
	for _, charset := range charsetOf.FindAllStringSubmatch(kind, -1) {
		if !asciiCharset.MatchString(charset[1]) {
			return fmt.Errorf("%w: its charset is %s; ask for UTF-8", errUnsearchable, text.Quote(charset[1]))
		}
	}
	return nil
}

// wholeStatuses are the successes that are neither a part (206), nor a difference (226), nor
// unknown.
func wholeStatuses() []int {
	return []int{
		http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNonAuthoritativeInfo, http.StatusNoContent, http.StatusResetContent,
		http.StatusMultiStatus, http.StatusAlreadyReported,
	}
}

// checkLetters refuses text of several bytes per letter with a type that does not say so.
func checkLetters(resp *http.Response, body []byte) error {
	start := body[:min(4, len(body))]
	if bytes.HasPrefix(start, []byte{0xfe, 0xff}) || bytes.HasPrefix(start, []byte{0xff, 0xfe}) ||
		textType.MatchString(resp.Header.Get("Content-Type")) && bytes.IndexByte(start, 0) >= 0 {
		return fmt.Errorf("%w: it is in UTF-16 or UTF-32; ask for UTF-8", errUnsearchable)
	}
	return nil
}

// headerOf is the provider's header.
func headerOf(all []*abi.HttpHeader) http.Header {
	header := http.Header{}
	for _, h := range all {
		header.Add(h.Name, h.Value)
	}
	return header
}
