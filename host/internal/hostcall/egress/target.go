package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

var errUserinfo = errors.New("it must not hold a user name or password")

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
	return t.scheme + "://" + hostPort(t.host, t.port) + t.path
}

// sameOrigin reports whether both are of one scheme, host and port.
func (t target) sameOrigin(other target) bool {
	return t.scheme == other.scheme && t.host == other.host && t.port == other.port
}

// parseTarget reads and checks a URL. Its errors quote only the scheme and the host.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // the error would repeat the URL
		return target{}, errors.New("the URL is not valid")
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, fmt.Errorf("scheme %s is not http or https", text.Quote(u.Scheme))
	case u.User != nil:
		return target{}, errUserinfo
	case strings.Contains(raw, "#"):
		return target{}, errors.New("it must not have a fragment")
	case u.Opaque != "" || u.Host == "":
		return target{}, errors.New("it has no host")
	case strings.Contains(u.RawQuery, " "): // it would end the request line
		return target{}, errors.New("the query must not have spaces; write %20")
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

// canonicalHost accepts DNS names and IP addresses, and no other notation that some resolver
// takes for an address (2130706433, 0x7f.1, 010.0.0.1).
func canonicalHost(host string, bracketed bool) (string, error) {
	host = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		switch {
		case addr.Zone() != "" || addr.Is4In6():
			return "", fmt.Errorf("host %s: write an address without a zone, and an IPv4 address as IPv4", text.Quote(host))
		case addr.Is6() != bracketed:
			return "", fmt.Errorf("host %s: brackets belong to IPv6 addresses, and only to those", text.Quote(host))
		}
		return addr.String(), nil
	}
	if len(validation.IsDNS1123Subdomain(strings.ReplaceAll(host, "_", "-"))) > 0 || bracketed {
		return "", fmt.Errorf("host %s is neither a DNS name (without a trailing dot; international names in their xn-- form) nor an IP address", text.Quote(host))
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("host %s: ends like an IP address but is none in the usual form", text.Quote(host))
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
