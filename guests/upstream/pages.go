package upstream

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// all reports whether a list is complete: status 200, a request without
// filters, and all further pages. An unknown parameter counts as a filter.
func (w *witness) all(a *answer) bool { return w.wholeList(a, len(w.answers), false) }

// wholeList looks at no more pages than these. With filtered the request may
// have filters.
func (w *witness) wholeList(a *answer, pages int, filtered bool) bool {
	if pages == 0 || a.err != nil || a.status != http.StatusOK {
		return false
	}
	asked, ok := a.parameters()
	if !ok && !filtered {
		return false
	}
	limit, later := 0, false
	for name, values := range asked {
		switch plain := plainKey(name); {
		case slices.Contains(sizes(), plain):
			n, err := strconv.Atoi(strings.Join(values, ""))
			if err != nil || n <= 0 {
				return false
			}
			limit = n
		case slices.Contains(nexts(), plain), slices.Contains(places(), plain):
			later = true
		case !slices.Contains([]string{"action", "version", "apiversion", "alt", "prettyprint", "alltenants"}, plain) && !filtered:
			return false
		}
	}
	if later && !slices.ContainsFunc(w.answers, func(b answer) bool { return b.begins(a) }) {
		return false
	}
	page, err := a.page()
	if err != nil {
		return false
	}
	for _, next := range page.next {
		if !slices.ContainsFunc(w.answers, func(b answer) bool {
			return b.request != a.request && b.asksFor(next) && w.wholeList(&b, pages-1, filtered)
		}) {
			return false
		}
	}
	return len(page.next) > 0 || !page.more && (later || page.total <= page.items) && (limit == 0 || page.items < limit)
}

// begins reports whether the answer is the first page of the same list.
func (a *answer) begins(other *answer) bool {
	asked, ok := a.parameters()
	for name := range asked {
		ok = ok && !slices.Contains(nexts(), plainKey(name)) && !slices.Contains(places(), plainKey(name))
	}
	mine, _, _ := strings.Cut(a.line, "?")
	others, _, _ := strings.Cut(other.line, "?")
	return ok && a.status == http.StatusOK && mine == others
}

// page is what the answer says about the next pages.
func (a *answer) page() (p page, err error) {
	if a.next != "" {
		p.next = []string{a.next}
	}
	return p, p.read(a.answer)
}

// asksFor reports whether the request names a page.
func (a *answer) asksFor(next string) bool {
	for _, sent := range []string{a.line, string(a.body)} {
		plain, err := url.QueryUnescape(sent)
		if strings.Contains(sent, next) || err == nil && strings.Contains(plain, next) {
			return true
		}
	}
	return false
}

// parameters are those of the query and of a form or JSON object in the body;
// false for another body.
func (a *answer) parameters() (url.Values, bool) {
	method, address, _ := strings.Cut(a.line, " ")
	u, err := url.Parse(address)
	if err != nil || method != http.MethodGet && method != http.MethodPost {
		return nil, false
	}
	asked, err := url.ParseQuery(u.RawQuery)
	body := bytes.TrimSpace(a.body)
	if err != nil || len(body) == 0 {
		return asked, err == nil
	}
	var object map[string]any
	if body[0] == '{' && json.Unmarshal(body, &object) == nil {
		for name, value := range object {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, false
			}
			asked.Add(name, string(bytes.Trim(text, `"`)))
		}
		return asked, true
	}
	form, err := url.ParseQuery(string(body))
	for name, values := range form {
		asked[name] = append(asked[name], values...)
	}
	return asked, err == nil && body[0] != '<' && body[0] != '{' && body[0] != '['
}

// plainKey is a name without the differences between clouds' spellings.
func plainKey(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// The names of parameters and fields about pages.
func sizes() []string {
	return []string{"limit", "perpage", "pagesize", "maxresults", "maxrecords", "maxitems", "top"}
}
func places() []string { return []string{"page", "offset", "startindex", "skip"} }
func nexts() []string {
	return []string{
		"next", "nextpage", "nextpagetoken", "nexttoken", "nextlink", "nextmarker", "nextcursor", "nexturl", "pagetoken", "continue", "continuationtoken",
		"marker", "cursor", "skiptoken", "startingtoken",
	}
}

// page is what a list says about the next pages.
type page struct {
	next  []string
	more  bool
	total int
	items int
}

func (p *page) read(document []byte) error {
	if formatOf(document) == "XML" {
		return p.readXML(document)
	}
	var v any
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return err
	}
	p.walk("", v)
	return nil
}

// walk visits each field: clouds tell of pages beside the list or in an object.
func (p *page) walk(key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["rel"] == "next" {
			p.field("next", scalar(v["href"]))
		}
		for name, value := range v {
			if inner, ok := value.(map[string]any); ok && slices.Contains(nexts(), plainKey(name)) {
				value = inner["href"]
			}
			p.walk(plainKey(name), value)
		}
	case []any:
		p.items = max(p.items, len(v))
		for _, item := range v {
			p.walk("", item)
		}
	default:
		p.field(key, scalar(v))
	}
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (p *page) field(key, value string) {
	switch {
	case value == "" || value == "false" || value == "0":
	case slices.Contains(nexts(), key):
		p.next = append(p.next, value)
	case slices.Contains([]string{"istruncated", "truncated", "hasmore", "more", "hasnext"}, key):
		p.more = true
	case slices.Contains([]string{"total", "totalcount", "totalresults", "totalentries", "totalitems", "count"}, key):
		n, err := strconv.Atoi(value)
		p.total = max(p.total, n)
		p.more = p.more || err != nil
	}
}

func (p *page) readXML(document []byte) error {
	decoder, key := xml.NewDecoder(bytes.NewReader(document)), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			p.total = 0 // a list's elements are not counted here
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			key = plainKey(t.Name.Local)
		case xml.EndElement:
			key = ""
		case xml.CharData:
			p.field(key, strings.TrimSpace(string(t)))
		}
	}
}
