package rest

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Paging describes the lists of an API. The zero value is a list of one page,
// the whole answer.
type Paging struct {
	// Items is the path of the member with the list, with dots between names:
	// "data.servers". Empty: the answer itself. An answer without it is an
	// error: an empty object is never an empty list.
	Items string
	// Param is the query parameter for the page: "page", "page_token". Empty:
	// the answer has the URL of the next page.
	Param string
	// Next names the member with the token, the number or, without Param, the URL of
	// the next page: "meta.next". In the last page it is absent, null, "" or 0.
	Next string
	// Last names the member with the number of the last page. Pages are counted
	// from 1, in Param.
	Last string
	// Link: the header Link has the URL of the next page, as rel="next".
	Link bool
}

// The bounds of a list.
const (
	maxPages = 500
	maxToken = 4 << 10 // bytes
)

// List reads all pages. Only the query of a next page's URL is used: host and
// path stay those of the client. A list above the bounds is an error.
func List[T any](c *Client, path string, p Paging) ([]T, error) {
	items := []T{}
	seen := map[string]bool{}
	for token := ""; ; {
		page, next, err := Page[T](c, path, p, token)
		if err != nil {
			return nil, err
		}
		items = append(items, page...)
		if next == "" {
			return items, nil
		}
		if seen[next] || len(seen) == maxPages {
			return nil, sdk.Error(abi.CodeInternal, "GET "+Brief(path, maxPath)+": the pages of the list do not end")
		}
		seen[next], token = true, next
	}
}

// Page reads one page, the first for an empty token, as sdk.InstanceLister
// requires; next is empty after the last.
func Page[T any](c *Client, path string, p Paging, token string) (page []T, next string, err error) {
	call := &Call{Path: p.path(path, token)}
	var body json.RawMessage
	call.Out = &body
	if err := c.Do(call)[0]; err != nil {
		return nil, "", err
	}
	req := &abi.HttpRequest{Method: "GET", Url: c.base + call.Path}
	items, found := member(body, p.Items)
	if !found || len(items) == 0 || items[0] != '[' {
		return nil, "", broken(req, "it has no list "+strconv.Quote(p.Items))
	}
	if err := json.Unmarshal(items, &page); err != nil {
		return nil, "", broken(req, err.Error())
	}
	if next, err = p.next(body, call.Header, token, len(page)); err == nil && len(next) > maxToken {
		err = broken(req, "the token of the next page is too long")
	}
	return page, next, err
}

// path adds the page to the query. The token is the whole query where the API
// returns URLs.
func (p Paging) path(path, token string) string {
	if token == "" {
		return path
	}
	before, _, _ := strings.Cut(path, "?")
	if p.Param == "" {
		return before + "?" + token
	}
	separator := "?"
	if before != path {
		separator = "&"
	}
	return path + separator + url.QueryEscape(p.Param) + "=" + url.QueryEscape(token)
}

func (p Paging) next(body []byte, headers map[string]string, token string, count int) (string, error) {
	switch {
	case p.Link:
		return queryOf(linkNext(headers["link"])), nil
	case p.Last != "":
		return p.count(body, token)
	case p.Next == "" && p.Param != "" && count > 0: // up to an empty page
		return number(token), nil
	case p.Next == "":
		return "", nil
	}
	value, _ := member(body, p.Next)
	next := scalar(value)
	if p.Param == "" {
		next = queryOf(next)
	}
	return next, nil
}

func (p Paging) count(body []byte, token string) (string, error) {
	value, _ := member(body, p.Last)
	last, err := strconv.Atoi(string(value)) // 0: last page of an empty list
	if err != nil {
		return "", sdk.Error(abi.CodeInternal, "the cloud's answer has no number "+strconv.Quote(p.Last))
	}
	if current, _ := strconv.Atoi(token); max(current, 1) >= last {
		return "", nil
	}
	return number(token), nil
}

// number is the number of the page after the token's; an empty token is the first page.
func number(token string) string {
	current, _ := strconv.Atoi(token)
	return strconv.Itoa(max(current, 1) + 1)
}

// scalar is a token, a number or a URL; empty for null, 0, and other types.
func scalar(value json.RawMessage) string {
	text := string(value)
	if unquoted := ""; json.Unmarshal(value, &unquoted) == nil {
		return unquoted
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil || text == "0" {
		return ""
	}
	return text
}

// member finds a.b.c; the whole value for no name.
func member(body json.RawMessage, name string) (value json.RawMessage, found bool) {
	for value = body; name != ""; {
		var key string
		key, name, _ = strings.Cut(name, ".")
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return nil, false
		}
		if value, found = members[key]; !found {
			return nil, false
		}
	}
	return value, true
}

// linkNext finds the URL of <URL>; rel="next", ...
func linkNext(header string) string {
	for _, link := range strings.Split(header, ",") {
		target, parameters, _ := strings.Cut(strings.TrimSpace(link), ";")
		if strings.Contains(parameters, `rel="next"`) || strings.Contains(parameters, "rel=next") {
			return strings.Trim(target, "<> ")
		}
	}
	return ""
}

func queryOf(target string) string {
	_, query, _ := strings.Cut(target, "?")
	query, _, _ = strings.Cut(query, "#")
	return query
}
