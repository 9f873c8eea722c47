// Package egress sends the HTTP requests of a provider. Everything is denied
// that no grant of the administrator allows: scheme, host, port, path and
// method are compared before anything is sent, and the address that the host
// resolves to is vetted at the moment of connecting, so that DNS cannot lead a
// provider to the cloud's metadata service or into the cluster.
//
// It imports abi and nothing else of this project.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Grant allows requests to one scheme, host and port.
type Grant struct {
	// Scheme is "http" or "https".
	Scheme string
	// Host is a DNS name in lower case without a trailing dot, or an IP
	// address as netip.Addr writes it. A host that is an IP address may be
	// connected to whatever address it is.
	Host string
	Port uint16
	// PathPrefix begins with "/". It is compared with the path as it is sent:
	// a prefix without "/" at its end allows the path itself and what is below
	// it. "" is "/".
	PathPrefix string
	// Methods are the allowed methods; empty allows GET, HEAD, OPTIONS, POST,
	// PUT, PATCH and DELETE.
	Methods []string
	// CIDRs are addresses that the host may resolve to although they are
	// loopback, link-local, private or otherwise not public.
	CIDRs []netip.Prefix
}

var errUserinfo = errors.New("it must not hold a user name or password")

// ParseGrant reads a URL prefix such as https://api.example.com:8774/v2.1/,
// for all usual methods. The error names the prefix unless it holds a password.
func ParseGrant(prefix string) (Grant, error) {
	g, err := parseGrant(prefix)
	if errors.Is(err, errUserinfo) {
		return Grant{}, fmt.Errorf("URL prefix: %w", err)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("URL prefix %q: %w; give https://HOST[:PORT][/PATH/]", prefix, err)
	}
	return g, nil
}

func parseGrant(prefix string) (Grant, error) {
	t, err := parseTarget(prefix)
	if err != nil {
		return Grant{}, err
	}
	if t.query || strings.Contains(prefix, "?") {
		return Grant{}, errors.New("it must not have a query")
	}
	return Grant{Scheme: t.scheme, Host: t.host, Port: t.port, PathPrefix: t.path}, nil
}

// String returns the URL prefix of the grant.
func (g Grant) String() string {
	return g.Scheme + "://" + hostPort(g.Host, g.Port) + g.pathPrefix()
}

func (g Grant) pathPrefix() string {
	if g.PathPrefix == "" {
		return "/"
	}
	return g.PathPrefix
}

func (g Grant) validate() error {
	parsed, err := ParseGrant(g.String())
	if err != nil {
		return err
	}
	if parsed.String() != g.String() {
		return fmt.Errorf("grant %s: is not in its canonical form %s", g, parsed)
	}
	for _, m := range g.Methods {
		if !validMethod(m) {
			return fmt.Errorf("grant %s: method %q is not allowed", g, m)
		}
	}
	for _, p := range g.CIDRs {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("grant %s: CIDR %s is not valid; write IPv4 networks as IPv4", g, p)
		}
	}
	return nil
}

// allows reports whether the grant covers the method and target.
func (g Grant) allows(method string, t target) bool {
	return g.Scheme == t.scheme && g.Host == t.host && g.Port == t.port && g.allowsPath(t.path) && g.allowsMethod(method)
}

func (g Grant) allowsPath(path string) bool {
	prefix := g.pathPrefix()
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(path, prefix)
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func (g Grant) allowsMethod(method string) bool {
	if len(g.Methods) > 0 {
		return slices.Contains(g.Methods, method)
	}
	switch method {
	case "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE":
		return true
	}
	return false
}

// target is a URL in canonical form.
type target struct {
	scheme string
	host   string
	port   uint16
	path   string // escaped, as it is sent; begins with "/"
	query  bool
	url    *url.URL
}

// String is the URL without its query, for errors.
func (t target) String() string {
	const most = 256
	s := t.scheme + "://" + hostPort(t.host, t.port) + t.path
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// parseTarget reads and checks a URL. Its errors hold nothing of the URL but
// the scheme and the host.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // the error would repeat the URL
		return target{}, errors.New("the URL is not valid")
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, fmt.Errorf("scheme %q is not http or https", clip(u.Scheme))
	case u.User != nil:
		return target{}, errUserinfo
	case strings.Contains(raw, "#"):
		return target{}, errors.New("it must not have a fragment")
	case u.Opaque != "" || u.Host == "":
		return target{}, errors.New("it has no host")
	}
	t := target{scheme: u.Scheme, path: u.EscapedPath(), query: u.RawQuery != "" || u.ForceQuery, url: u}
	if t.path == "" {
		t.path, u.Path = "/", "/"
	}
	if t.host, err = canonicalHost(u.Hostname(), strings.HasPrefix(u.Host, "[")); err != nil {
		return target{}, err
	}
	if t.port, err = canonicalPort(u); err != nil {
		return target{}, err
	}
	u.Host = authority(t)
	return t, checkPath(t.path)
}

// canonicalHost takes DNS names and IP addresses and none of the other forms
// that some resolver takes for an address (2130706433, 0x7f.1, 010.0.0.1).
func canonicalHost(host string, bracketed bool) (string, error) {
	host = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		switch {
		case addr.Zone() != "" || addr.Is4In6():
			return "", fmt.Errorf("host %q: write an address without a zone, and an IPv4 address as IPv4", clip(host))
		case addr.Is6() != bracketed:
			return "", fmt.Errorf("host %q: brackets belong to IPv6 addresses, and only to those", clip(host))
		}
		return addr.String(), nil
	}
	if len(validation.IsDNS1123Subdomain(strings.ReplaceAll(host, "_", "-"))) > 0 || bracketed {
		return "", fmt.Errorf("host %q is neither a DNS name (without a trailing dot; international names in their xn-- form) nor an IP address", clip(host))
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("host %q: ends like an IP address but is none in the usual form", clip(host))
	}
	return host, nil
}

func canonicalPort(u *url.URL) (uint16, error) {
	switch {
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return 0, errors.New("the port is empty")
	case u.Port() == "" && u.Scheme == "http":
		return 80, nil
	case u.Port() == "":
		return 443, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("the port is not a number from 1 to 65535")
	}
	return uint16(port), nil
}

// authority is the Host header: without the scheme's default port.
func authority(t target) string {
	if (t.scheme == "http" && t.port == 80) || (t.scheme == "https" && t.port == 443) {
		if strings.Contains(t.host, ":") {
			return "[" + t.host + "]"
		}
		return t.host
	}
	return hostPort(t.host, t.port)
}

func hostPort(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// checkPath refuses paths that a server may take for another path than the one
// that was compared with the grants: dot segments, also escaped (twice), with
// backslashes or with parameters, and control characters.
func checkPath(path string) error {
	for range 3 {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			name, _, _ := strings.Cut(segment, ";")
			if name == "." || name == ".." {
				return errors.New("the path must not have . or .. as a segment")
			}
		}
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("the path must not have control characters")
		}
		unescaped, err := url.PathUnescape(path)
		if err != nil || unescaped == path {
			// What does not decode once more (50%25 is 50%) is not decoded by
			// a server either.
			return nil
		}
		path = unescaped
	}
	return nil
}

func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
