package credential

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// maxSessions bounds the remembered sessions of a credential: more than instances that log
	// in.
	maxSessions = 64
	// minSessionBytes is the length of the shortest session: a shorter value cannot be scrubbed,
	// and is not handed on.
	minSessionBytes = 8
	maxSessionBytes = 8 << 10
	// maxLoginBytes bounds a login's answer with a session in a field.
	maxLoginBytes = 1 << 20
	// maxCookies bounds the sessions from one answer's cookies: each one costs a search of the
	// whole body.
	maxCookies = 8
	// placeholderPrefix is the prefix of all placeholders.
	placeholderPrefix = "session-"
	// wholeAnswer is the Field of a session that is the whole answer, as a string.
	wholeAnswer = "."
)

// sessions keep the sessions of logins. A provider gets a placeholder for each; in requests
// the host replaces it by the session.
type sessions struct {
	redacted
	Session
	holder holder

	mu    sync.Mutex
	known []*session // the most recently used one is last
}

// session belongs to one scheme, host and port, and to the Secret of its login.
type session struct {
	redacted
	placeholder, value, origin, version string
	// quoted: the cookie's value is in quotes.
	quoted bool
}

func newSessions(s Session, h holder) *sessions { return &sessions{Session: s, holder: h} }

// take removes possible sessions from a request, and returns the session of its placeholder;
// nil: none. A session id that a provider knew before a login must not become a logged-in
// session.
//
// Invariant L4 (host/SECURITY.md): a request has a session of ours, or none.
func (s *sessions) take(c *call) *session {
	var brought []string
	if s.Cookie != "" {
		brought = takeCookie(c.req.Header, s.Cookie)
	} else {
		brought, c.scheme = takeHeader(c.req.Header, s.Header)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.known {
		if known.origin != originOf(c.req) || known.version != c.version {
			continue
		}
		for _, value := range brought {
			if value == known.placeholder {
				s.known = append(append(s.known[:i:i], s.known[i+1:]...), known)
				return known
			}
		}
	}
	return nil
}

// put adds a session to a request.
func (s *sessions) put(c *call, of *session) error {
	if s.Header != "" {
		return setHeader(c.req, s.Header, c.scheme+of.value)
	}
	pairs := append(c.req.Header["Cookie"], (&http.Cookie{Name: s.Cookie, Value: of.value, Quoted: of.quoted}).String())
	return setHeader(c.req, "Cookie", strings.Join(pairs, "; "))
}

func originOf(req *http.Request) string { return req.URL.Scheme + "://" + req.URL.Host }

// takeCookie removes a cookie in every form that a server may read, and returns its values.
func takeCookie(h http.Header, name string) (values []string) {
	var kept []string
	for key, lines := range h {
		switch textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(key, "_", "-")) {
		case "Cookie":
		case "Cookie2":
			delete(h, key)
			continue
		default:
			continue
		}
		delete(h, key)
		for pair := range strings.FieldsFuncSeq(strings.Join(lines, ";"), func(r rune) bool { return r == ';' || r == ',' }) {
			pair = strings.TrimSpace(pair)
			if !strings.Contains(strings.ToLower(pair), strings.ToLower(name)) {
				kept = append(kept, pair)
				continue
			}
			_, value, _ := strings.Cut(pair, "=")
			values = append(values, strings.Trim(value, `" `))
		}
	}
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
	return values
}

// takeHeader removes a header, and returns the last words of its values, and the text before
// the last one, as "Bearer ".
func takeHeader(h http.Header, name string) (values []string, scheme string) {
	for key, lines := range h {
		if !strings.EqualFold(strings.ReplaceAll(key, "_", "-"), strings.ReplaceAll(name, "_", "-")) {
			continue
		}
		delete(h, key)
		for _, line := range lines {
			last := strings.LastIndexByte(line, ' ') + 1
			values, scheme = append(values, line[last:]), line[:last]
		}
	}
	return values, scheme
}

// learn replaces an answer's sessions by placeholders, in its header and in the body, which
// it returns. login: the request was one.
//
// Invariant L3 (host/SECURITY.md): a provider gets only the placeholder of a session.
func (s *sessions) learn(c *call, login bool, status int, header http.Header, body []byte) []byte {
	if s.Cookie != "" {
		body = s.learnCookies(c, header, body)
	}
	if s.Field == "" || !login || status >= http.StatusMultipleChoices {
		return body
	}
	// Invariant M42 (host/SECURITY.md): a decoded answer takes many times its size. An answer
	// that was not searched for its session is not handed on.
	if len(body) > maxLoginBytes {
		return nil
	}
	value, ok := fieldOf(body, s.Field)
	if !ok {
		return body
	}
	if !utf8.Valid(body) { // not JSON (RFC 8259, 8.1): the decoded text may differ from the body
		return nil
	}
	placeholder := s.keep(c, value, false)
	if placeholder == "" {
		return nil
	}
	return replaced(unescaped(body, value), value, placeholder)
}

func (s *sessions) learnCookies(c *call, header http.Header, body []byte) []byte {
	lines := header["Set-Cookie"]
	header.Del("Set-Cookie")
	header.Del("Set-Cookie2")
	placeholders := map[string]string{}
	for _, line := range lines {
		cookie, err := http.ParseSetCookie(line)
		switch {
		case err != nil: // the cookie is unreadable
			continue
		case !strings.EqualFold(cookie.Name, s.Cookie):
			header.Add("Set-Cookie", line)
			continue
		case cookie.Value != "" && cookie.MaxAge >= 0:
			placeholder, seen := placeholders[cookie.Value]
			if !seen && len(placeholders) < maxCookies {
				placeholder = s.keep(c, cookie.Value, cookie.Quoted)
				placeholders[cookie.Value] = placeholder
				body = replaced(body, cookie.Value, placeholder)
			}
			if placeholder == "" {
				continue
			}
			cookie.Value = placeholder
		default: // a deletion
			cookie.Value = ""
		}
		header.Add("Set-Cookie", cookie.String())
	}
	return body
}

// replaced is a body with the placeholder in place of a session's value. It is called once
// per value: a placeholder might contain the value.
func replaced(body []byte, value, placeholder string) []byte {
	if placeholder == "" {
		return body
	}
	return bytes.ReplaceAll(body, []byte(value), []byte(placeholder))
}

// unescaped rewrites the texts of a JSON document that contain the value with escapes (\/,
// \u002B), as some servers write them: otherwise the provider would get the scrubber's mark
// as its session, and never be logged in.
func unescaped(body []byte, value string) []byte {
	var out []byte
	for rest := body; ; {
		begin := bytes.IndexByte(rest, '"')
		if begin < 0 {
			return append(out, rest...)
		}
		end := begin + 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(rest))
		out = append(out, rest[:begin]...)
		out = append(out, unescapedText(rest[begin:end], value)...)
		rest = rest[end:]
	}
}

// unescapedText is one text with its quotes.
func unescapedText(literal []byte, value string) []byte {
	var text string
	if !bytes.ContainsRune(literal, '\\') || json.Unmarshal(literal, &text) != nil || !strings.Contains(text, value) {
		return literal
	}
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // it is a text
		return literal
	}
	return bytes.TrimSpace(plain.Bytes())
}

// keep remembers a session, and returns its placeholder; "" for an unusable value.
func (s *sessions) keep(c *call, value string, quoted bool) string {
	if len(value) < minSessionBytes || len(value) > maxSessionBytes || strings.Contains(placeholderPrefix, value) {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		if known.value == value && known.origin == originOf(c.req) && known.version == c.version {
			return known.placeholder
		}
	}
	next := &session{placeholder: placeholderPrefix + rand.Text(), value: value, origin: originOf(c.req), version: c.version, quoted: quoted}
	s.holder.hold("session/"+next.placeholder, []byte(value))
	s.known = append(s.known, next)
	s.forget(c.version)
	return next.placeholder
}

// forget drops the sessions of other Secrets, and the least recently used ones above the
// bound.
func (s *sessions) forget(version string) {
	excess := len(s.known) - maxSessions
	var kept []*session
	for i, known := range s.known {
		if i < excess || known.version != version {
			s.holder.hold("session/" + known.placeholder)
			continue
		}
		kept = append(kept, known)
	}
	s.known = kept
}

// fieldOf returns a text of a JSON document: a.b is the field b of the field a, and
// wholeAnswer is the document itself.
func fieldOf(body []byte, path string) (string, bool) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "", false
	}
	if path != wholeAnswer {
		for name := range strings.SplitSeq(path, ".") {
			object, _ := v.(map[string]any)
			v = object[name]
		}
	}
	text, ok := v.(string)
	return text, ok && text != ""
}
