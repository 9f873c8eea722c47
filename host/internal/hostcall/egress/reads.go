package egress

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Read declares requests by one method below one path as changing nothing.
type Read struct {
	Method string
	// PathPrefix is compared as a Grant's; "" is "/".
	PathPrefix string
	// Actions restrict it to requests with one of these actions, as DescribeInstances; a
	// trailing * matches a prefix. The action is the parameter Action or command of the query or
	// of a form in the body, or the last part of the header X-Amz-Target, X-TC-Action or
	// SOAPAction. None: any request.
	Actions []string
}

var (
	actionPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,127}\*?$`)
	// formAction occurs in a body that servers may read as a form whatever its type.
	formAction = regexp.MustCompile(`(?i)(action|command)=`)
)

// Validate returns why a Grant with it would be refused.
func (r Read) Validate() error {
	if err := CheckMethod(r.Method); err != nil {
		return fmt.Errorf("reads: method %q: %w", r.Method, err)
	}
	if r.PathPrefix != "" {
		if err := CheckPathPrefix(r.PathPrefix); err != nil {
			return fmt.Errorf("reads: path prefix %q: %w", r.PathPrefix, err)
		}
	}
	for _, a := range r.Actions {
		if err := CheckAction(a); err != nil {
			return fmt.Errorf("reads: action %q: %w", a, err)
		}
	}
	return nil
}

// covers reports whether it declares a request with this action, "" for none, as changing
// nothing.
func (r Read) covers(req *http.Request, action string) bool {
	if r.Method != req.Method || r.PathPrefix != "" && !below(r.PathPrefix, req.URL.EscapedPath()) {
		return false
	}
	return len(r.Actions) == 0 || slices.ContainsFunc(r.Actions, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return action == pattern || open && strings.HasPrefix(action, prefix)
	})
}

// writes says why a request may change something, or "". An unclear request is a write.
func writes(call *call, req *http.Request) (why string) {
	body, err := bodyOf(req)
	if err != nil {
		return err.Error()
	}
	action, err := actionOf(req, body)
	if err != nil {
		return err.Error()
	}
	safe := req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions
	if safe && action == "" && len(body) == 0 {
		return ""
	}
	covers := func(r Read) bool { return r.covers(req, action) }
	if slices.ContainsFunc(call.grant.Reads, covers) && slices.ContainsFunc(call.now.Reads, covers) {
		return ""
	}
	return "if it changes nothing, add it to the reads of the grant in the HostConfiguration (providers[].grants[].reads)"
}

// bodyOf is the sent body, possibly made by a credential.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.Header.Get("Content-Encoding") != "" {
		return nil, fmt.Errorf("its body is encoded")
	}
	if req.GetBody == nil { // net/http's word for none
		return nil, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("its body cannot be read")
	}
	defer body.Close()
	return io.ReadAll(body) // it is in memory, within MaxRequestBytes
}

// actionOf returns the action of a request, "" for none. With two, the server's choice is
// unknown: an error.
func actionOf(req *http.Request, body []byte) (string, error) {
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("its query is not valid")
	}
	form, err := formOf(req, body)
	if err != nil {
		return "", err
	}
	var all []string
	for _, values := range []url.Values{query, form} {
		for name, value := range values {
			if refusedParameter(name) {
				return "", fmt.Errorf("some servers read %s as the method", name)
			}
			if namesAction(name) {
				all = append(all, value...)
			}
		}
	}
	for name, lines := range req.Header {
		switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
		case "x-amz-target", "x-tc-action":
			all = append(all, lastPart(lines, ".")...)
		case "soapaction":
			all = append(all, lastPart(lines, "/#:")...)
		}
	}
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("it has %d actions", len(all))
}

// namesAction also accepts other spellings that servers may accept.
func namesAction(parameter string) bool {
	name := strings.TrimFunc(strings.ToLower(parameter), func(r rune) bool { return r < 'a' || r > 'z' })
	return name == "action" || name == "command"
}

func lastPart(lines []string, separators string) (parts []string) {
	for _, line := range lines {
		line = strings.Trim(line, `" `)
		parts = append(parts, line[strings.LastIndexAny(line, separators)+1:])
	}
	return parts
}

// formOf returns the fields of a form. Other bodies have none.
func formOf(req *http.Request, body []byte) (url.Values, error) {
	if len(body) == 0 {
		return nil, nil
	}
	kinds := req.Header.Values("Content-Type")
	if len(kinds) > 1 {
		return nil, fmt.Errorf("its body has two types")
	}
	kind, parameters, err := mime.ParseMediaType(strings.Join(kinds, ""))
	if charset := parameters["charset"]; len(kinds) > 0 && err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, fmt.Errorf("the type of its body cannot be read")
	}
	switch {
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fmt.Errorf("its form is not valid")
		}
		return form, nil
	case strings.HasPrefix(kind, "multipart/"), kind == "":
		return nil, fmt.Errorf("the type of its body cannot be read")
	}
	if formAction.Match(body) {
		return nil, fmt.Errorf("a server may read an action in its body")
	}
	return nil, nil
}
