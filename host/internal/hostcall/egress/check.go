package egress

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Checks of single fields of the configuration, so that its reader can name the
// wrong field. New accepts every Grant whose fields pass.

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

// CheckPrefix checks a URL prefix for ParseGrant, with or without a wildcard. The error does
// not quote it: it may hold a password.
func CheckPrefix(prefix string) error {
	_, err := parseGrant(prefix)
	return err
}

// CheckEndpoint is CheckPrefix for the URL of one endpoint, without a wildcard, since
// requests go to exactly this URL.
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
		return errors.New("some servers read it as the method: grants are compared with the real one")
	}
	return nil
}

// CheckAction checks one of Read.Actions.
func CheckAction(action string) error {
	if !actionPattern.MatchString(action) {
		return errors.New("it must be the name of an action, with * at its end for all that begin so, such as Describe*")
	}
	return nil
}
