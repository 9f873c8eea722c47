package rest

import (
	"net/url"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Segment escapes one segment of a path: a name or an ID from an annotation or
// a provider ID must not change the path.
func Segment(id string) string {
	if id == "." || id == ".." {
		return "%2E"
	}
	return url.PathEscape(id)
}

// Query makes "?name=value&..." of pairs; empty for none.
func Query(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteByte("?&"[min(b.Len(), 1)])
		b.WriteString(url.QueryEscape(pairs[i]) + "=" + url.QueryEscape(pairs[i+1]))
	}
	return b.String()
}

// maxPath bounds the quotation of a path, in bytes.
const maxPath = 260

// describe names a request by method, host and path: a query may be long.
func describe(req *abi.HttpRequest) string {
	_, rest, _ := strings.Cut(req.Url, "://")
	path, _, _ := strings.Cut(rest, "?")
	return req.Method + " " + Brief(path, maxPath)
}

// target is the URL of a redirect without the parts that may hold a secret; ""
// for an unusable URL.
func target(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host+u.Path == "" {
		return ""
	}
	return "it redirects to " + Brief(u.Host+u.EscapedPath(), maxPath)
}

// Brief shortens a cloud's text to one line of at most limit bytes.
func Brief(text string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		if r <= ' ' || r == 0x7f || r == 0xfffd {
			space = b.Len() > 0
			continue
		}
		if b.Len()+8 > limit {
			b.WriteString("...")
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
