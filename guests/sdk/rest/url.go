package rest

import (
	"net/url"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Segment escapes one segment of a path: a name or an ID of an annotation or
// of a provider ID must not lead elsewhere.
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

// maxPath bounds what is shown of a path, in bytes.
const maxPath = 260

// describe names a request by method, host and path: a query may be long.
func describe(req *abi.HttpRequest) string {
	_, rest, _ := strings.Cut(req.Url, "://")
	path, _, _ := strings.Cut(rest, "?")
	return req.Method + " " + Brief(path, maxPath)
}

// Brief makes one line of at most limit bytes of a text of the cloud.
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
