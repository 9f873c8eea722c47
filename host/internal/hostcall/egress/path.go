package egress

import (
	"errors"
	"net/url"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// maxEscapings bounds the layers of escaping of a path. A name with a percent sign is
// escaped twice as a part of another name.
const maxEscapings = 4

// checkPath refuses paths that a server may read differently from the path compared with the
// grants, however often it decodes: dot segments and control characters in any spelling that
// decoders are known to accept.
func checkPath(path string) error {
	// Invariant E1 (host/SECURITY.md): the path is checked in every form that a server may
	// decode.
	for range maxEscapings + 1 {
		path = fold(path)
		if err := checkSegments(path); err != nil {
			return err
		}
		unescaped := unescapePath(path)
		if unescaped == path {
			return nil
		}
		path = unescaped
	}
	return errors.New("the path is escaped too often")
}

// checkSegments takes backslashes for slashes as well, and knows that servers drop
// parameters (..;a=b), path suffixes, and spaces at the ends.
func checkSegments(path string) error {
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if i := strings.IndexAny(segment, ";?#"); i >= 0 {
			segment = segment[:i]
		}
		if name := strings.Trim(segment, " "); name == "." || name == ".." {
			return errors.New("the path must not have . or .. as a segment")
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("the path must not have control characters")
	}
	return nil
}

// unescapePath decodes valid escapes and keeps the rest, as lenient servers do; also %uXXXX,
// which IIS knows.
func unescapePath(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		width := 3
		if i+1 < len(path) && path[i] == '%' && path[i+1]|0x20 == 'u' {
			width = 6
		}
		if path[i] != '%' || i+width > len(path) {
			out.WriteByte(path[i])
			continue
		}
		r, ok := hexRune(path[i+width/3 : i+width])
		switch {
		case !ok:
			out.WriteByte(path[i])
			continue
		case width == 3:
			out.WriteByte(byte(r))
		default:
			out.WriteRune(r)
		}
		i += width - 1
	}
	return out.String()
}

func hexRune(digits string) (r rune, ok bool) {
	for _, c := range []byte(digits) {
		at := strings.IndexByte("0123456789abcdef", c|0x20)
		if at < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(at)
	}
	return r, true
}

// fold replaces characters that decoders may read as ASCII: overlong UTF-8 (C0 AE is a dot
// without a check), full-width and other compatible characters, and mathematical slashes.
func fold(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r >= 0x80 }) {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); {
		r, width := overlong(path[i:])
		if width == 0 {
			out.WriteByte(path[i])
			i++
			continue
		}
		out.WriteByte(r)
		i += width
	}
	slashes := strings.NewReplacer("\u2044", "/", "\u2215", "/", "\u29f8", "/", "\u2216", `\`, "\u29f5", `\`, "\u29f9", `\`)
	return slashes.Replace(norm.NFKC.String(out.String()))
}

// overlong reads an ASCII character in an overlong encoding; the width is 0 for none.
// Continuation bytes may be invalid: some decoders use their lower bits all the same.
func overlong(s string) (c byte, width int) {
	first := s[0]
	var r uint32
	switch {
	case first>>5 == 0x6:
		width, r = 2, uint32(first&0x1f)
	case first>>4 == 0xe:
		width, r = 3, uint32(first&0x0f)
	case first>>3 == 0x1e:
		width, r = 4, uint32(first&0x07)
	case first>>2 == 0x3e:
		width, r = 5, uint32(first&0x03)
	case first>>1 == 0x7e:
		width, r = 6, uint32(first&0x01)
	default:
		return 0, 0
	}
	if len(s) < width {
		return 0, 0
	}
	for _, b := range []byte(s[1:width]) {
		r = r<<6 | uint32(b&0x3f)
	}
	if r >= 0x80 {
		return 0, 0
	}
	return byte(r), width
}

// checkQuery refuses parameters that override the method.
func checkQuery(query string) error {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		// Invariant E2 (host/SECURITY.md): no query parameter changes the method.
		if refusedParameter(name) {
			return errors.New("the query must not have a parameter that some servers read as the method: grants are compared with the real one")
		}
	}
	return nil
}
