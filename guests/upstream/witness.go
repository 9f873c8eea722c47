package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// maxWitnessed bounds a witness' record of one op.
const (
	maxWitnessed      = 512
	maxWitnessedBytes = 16 << 20
)

// witness records the cloud's answers during an op: "does not exist" must be
// the cloud's word.
type witness struct {
	answers []answer
	bytes   int
	lost    bool // the record is incomplete
}

// answer is the last answer to a request: clients repeat failed ones.
type answer struct {
	request [sha256.Size]byte
	line    string // method and URL
	body    []byte // of the request
	err     error
	status  int
	answer  []byte
	next    string // page, by a header
	refused string // the words of refusal
}

// add is called by the bridge. A nil witness keeps nothing.
func (w *witness) add(request *abi.HttpRequest, result sdk.HTTPResult) {
	if w == nil {
		return
	}
	a := answer{line: request.Method + " " + request.Url, body: request.Body, err: result.Err}
	a.request = sha256.Sum256(append([]byte(a.line+"\n"), request.Body...))
	if result.Response != nil {
		a.status, a.answer = int(result.Response.Status), result.Response.Body
		a.next = nextOf(result.Response.Headers)
		a.refused = refusal(request, result.Response.Status)
	}
	w.bytes += len(a.answer) + len(a.body)
	if w.bytes > maxWitnessedBytes || len(w.answers) >= maxWitnessed {
		w.lost = true
		return
	}
	w.answers = slices.DeleteFunc(w.answers, func(b answer) bool { return b.request == a.request })
	w.answers = append(w.answers, a)
}

// whole returns nil if each request had an answer without failure.
func (w *witness) whole(gone []string) error {
	if w.lost {
		return errors.New("there were more answers than are kept")
	}
	for i := range w.answers {
		a := &w.answers[i]
		switch {
		case a.err != nil:
			return fmt.Errorf("%s had no answer: %w", a.line, a.err)
		case a.status >= http.StatusBadRequest && isPage(a.answer):
			return fmt.Errorf("%s was answered with status %d and a page of HTML, which is of a gateway before the cloud", a.line, a.status)
		case a.status >= http.StatusBadRequest && !a.says(gone):
			return a.failed()
		}
	}
	return nil
}

func (a *answer) failed() error {
	if a.refused != "" {
		return errors.New(a.refused)
	}
	return fmt.Errorf("%s was answered with status %d", a.line, a.status)
}

// lists reports whether there is a complete list.
func (w *witness) lists() bool {
	return slices.ContainsFunc(w.answers, func(a answer) bool {
		_, list, err := read(a.answer)
		return err == nil && list
	})
}

// silence says why the answer does not prove an absence; nil if it proves
// something, or need not, as the answer to a change. So clients that ignore
// failures are distinguished from those that found nothing. An empty object
// comes from elsewhere.
func (a *answer) silence(gone []string) error {
	method, _, _ := strings.Cut(a.line, " ")
	if slices.Contains([]string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead}, method) || a.says(gone) {
		return nil
	}
	reads := method == http.MethodGet
	switch {
	case reads && a.err != nil && sdk.CodeOf(a.err) != abi.CodeDenied: // a request that is not allowed is no failure of the cloud
		return fmt.Errorf("%s had no answer: %w", a.line, a.err)
	case reads && (a.status == http.StatusTooManyRequests || a.status >= http.StatusInternalServerError):
		return fmt.Errorf("%s was answered with status %d", a.line, a.status)
	case len(a.answer) == 0 && (!reads || a.status != http.StatusOK):
		return nil
	}
	if values, list, err := read(a.answer); err != nil || !list && len(values) == 0 {
		return errors.Join(errors.New(a.line+" was answered by nothing"), err)
	}
	return nil
}

// linkNext is the address of the next page in a header.
var linkNext = regexp.MustCompile(`<([^>]*)>[^,]*\brel\s*=\s*"?next\b`)

func nextOf(headers []*abi.HttpHeader) string {
	for _, h := range headers {
		if found := linkNext.FindStringSubmatch(h.Value); found != nil && strings.EqualFold(h.Name, "Link") {
			return found[1]
		}
	}
	return ""
}

// says reports whether the answer means "does not exist": by its status, or by
// a word of the cloud. An HTML page comes from a gateway.
func (a *answer) says(gone []string) bool { return a.hasWord(gone) || a.notFound(nil) }

// hasWord reports whether one whole value of the answer is a word of the cloud.
func (a *answer) hasWord(gone []string) bool {
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false // not about the object, whatever it says
	}
	failed := a.status >= http.StatusBadRequest && a.status < http.StatusInternalServerError
	if a.err != nil || len(gone) == 0 || !failed && a.status != http.StatusOK {
		return false
	}
	values, _, err := read(a.answer)
	return err == nil && slices.ContainsFunc(values, func(v string) bool { return slices.Contains(gone, v) })
}

// empty reports whether the answer is complete XML with one of the elements,
// once and without content, and without a fault.
func (a *answer) empty(elements []string) bool {
	if a.err != nil || a.status != http.StatusOK || len(elements) == 0 {
		return false
	}
	decoder, found, inside := xml.NewDecoder(bytes.NewReader(a.answer)), 0, false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found == 1
		}
		if err != nil {
			return false
		}
		switch t := token.(type) {
		case xml.StartElement:
			if inside || t.Name.Local == "Fault" {
				return false
			}
			if inside = slices.Contains(elements, t.Name.Local); inside {
				found++
			}
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside && len(bytes.TrimSpace(t)) > 0 {
				return false
			}
		}
	}
}

// names reports whether the request or the answer has one of the names.
func (a *answer) names(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return contains([]byte(a.line), name) || contains(a.body, name) || contains(a.answer, name)
	})
}

// contains finds a name that is not part of a longer one.
func contains(text []byte, name string) bool {
	for name != "" {
		i := bytes.Index(text, []byte(name))
		if i < 0 {
			return false
		}
		end := i + len(name)
		if (i == 0 || !inName(text[i-1])) && (end == len(text) || !inName(text[end])) {
			return true
		}
		text = text[i+1:]
	}
	return false
}

func inName(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// read returns the values in a complete JSON or XML document, and whether it
// has a list: a JSON array, or XML elements below that of the answer.
func read(document []byte) (values []string, list bool, err error) {
	document = bytes.TrimSpace(document)
	if len(document) > 0 && document[0] == '<' {
		return readXML(document)
	}
	return readJSON(document)
}

func readJSON(document []byte) (values []string, list bool, err error) {
	if !json.Valid(document) {
		return nil, false, errors.New("the answer is no complete JSON or XML")
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return values, list, nil
		}
		if err != nil {
			return nil, false, err
		}
		switch t := token.(type) {
		case string:
			values = append(values, t)
		case json.Number:
			values = append(values, t.String())
		case bool:
			values = append(values, strconv.FormatBool(t))
		case json.Delim:
			list = list || t == '['
		}
	}
}

func readXML(document []byte) (values []string, list bool, err error) {
	if isPage(document) {
		return nil, false, errors.New("the answer is a page of HTML")
	}
	decoder := xml.NewDecoder(bytes.NewReader(document))
	depth, elements := 0, 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return values, list, complete(depth, elements)
		}
		if err != nil {
			return nil, false, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			elements++
			list = list || depth > 1
		case xml.EndElement:
			depth--
		case xml.CharData:
			values = append(values, strings.TrimSpace(string(t)))
		}
	}
}

// isPage reports whether an answer is a page for people, which no cloud's API
// has. It need not be complete, or XML.
func isPage(document []byte) bool {
	return pageStart.Match(document)
}

// pageStart is the start of a page, after anything that may precede it.
var pageStart = regexp.MustCompile(`(?is)^(?:\s|\x{feff}|<!--.*?-->|<\?.*?\?>)*<(?:!doctype\s+html|html|head|body|title|center|h1|p|pre|div)\b`)

func complete(depth, elements int) error {
	if depth != 0 || elements == 0 {
		return errors.New("the answer is no complete XML")
	}
	return nil
}
