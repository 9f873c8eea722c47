package egress

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// The checks of what an administrator writes, each of one field, so that who
// reads the configuration can name it. A Grant of fields that pass is one that
// New takes.

// CheckHost checks Grant.Host.
func CheckHost(host string) error {
	if host == "" || strings.ContainsAny(host, "@/?#") {
		return errors.New("it is neither a DNS name nor an IP address") // it may hold a password
	}
	return Grant{Scheme: "https", Host: host, Port: 443}.Validate()
}

// CheckPathPrefix checks Grant.PathPrefix.
func CheckPathPrefix(path string) error {
	if !strings.HasPrefix(path, "/") {
		return errors.New("it must begin with /")
	}
	return Grant{Scheme: "https", Host: "host", Port: 443, PathPrefix: path}.Validate()
}

// CheckMethod checks one of Grant.Methods.
func CheckMethod(method string) error {
	if !validMethod(method) {
		return errors.New("it must be a method in upper case, and neither CONNECT nor TRACE")
	}
	return nil
}

// CheckPrefix checks a URL prefix as ParseGrant reads it, also one with a
// wildcard. The error does not repeat it: it may hold a password.
func CheckPrefix(prefix string) error {
	_, err := parseGrant(prefix)
	return err
}

// CheckEndpoint is CheckPrefix of the URL of one endpoint, to which requests are
// sent as it is written: it has no wildcard.
func CheckEndpoint(url string) error {
	g, err := parseGrant(url)
	if err == nil && strings.HasPrefix(g.Host, wildcard) {
		err = errors.New("it is one URL: the wildcard * is for grants and the tokens of signers")
	}
	return err
}

// CheckHeader checks the name of a header that a credential sets.
func CheckHeader(name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return errors.New("it is not the name of a header")
	}
	if why := refusedHeader(name); why != "" {
		return fmt.Errorf("it cannot be set: %s", why)
	}
	return nil
}

// CheckParameter checks the name of a parameter that a credential adds to the
// query.
func CheckParameter(name string) error {
	if name == "" || refusedParameter(name) {
		return errors.New("some servers take it for the method, which is compared with the grants")
	}
	return nil
}
