package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

// maxAllowed bounds the entries of allowed_scopes.
const maxAllowed = 256

type config struct {
	authURL string // with /v3, without a final slash
	scope   scope  // the default if the Secret has none
	allowed []string
}

func (c *config) plainHTTP() bool { return strings.HasPrefix(c.authURL, "http://") }

func parseConfig(data []byte) (config, error) {
	root, err := yaml.Parse(data)
	if err != nil {
		return config{}, err
	}
	if root.Kind != yaml.Map {
		return config{}, fail(root.Line, "the configuration is %s, and must be a mapping with auth_url", root.Kind)
	}
	var c config
	values := map[string]string{}
	for i := range root.Fields {
		f := &root.Fields[i]
		switch {
		case f.Key == "auth_url":
			c.authURL, err = parseURL(f)
		case f.Key == "allowed_scopes":
			c.allowed, err = parseAllowed(f)
		case slices.Contains(scopeKeys(), f.Key):
			values[f.Key], err = text(&f.Value, f.Key)
		default:
			err = fail(f.Line, "%.100q is unknown here; there are auth_url, allowed_scopes, %s; who logs in stands in the Secret",
				f.Key, strings.Join(scopeKeys(), ", "))
		}
		if err != nil {
			return c, err
		}
	}
	if c.authURL == "" {
		return c, fail(root.Line, "there is no auth_url: give the URL of Keystone, such as https://keystone.example.com:5000/v3")
	}
	if c.scope, err = scopeOf(values); err != nil {
		return c, fail(root.Line, "%v", err)
	}
	return c, nil
}

func parseURL(f *yaml.Field) (string, error) {
	s, err := text(&f.Value, f.Key)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.ContainsAny(s, "?#") {
		return "", fail(f.Value.Line, "auth_url is no URL such as https://keystone.example.com:5000/v3, without user, query and fragment")
	}
	s = strings.TrimRight(s, "/")
	if strings.HasSuffix(s, "/v2.0") {
		return "", fail(f.Value.Line, "auth_url is of the removed Identity API v2.0: use /v3")
	}
	return strings.TrimSuffix(s, "/v3") + "/v3", nil
}

func parseAllowed(f *yaml.Field) ([]string, error) {
	if f.Value.Kind != yaml.List || len(f.Value.Items) > maxAllowed {
		return nil, fail(f.Value.Line, "allowed_scopes must be a list of at most %d entries", maxAllowed)
	}
	var allowed []string
	for i := range f.Value.Items {
		name, err := text(&f.Value.Items[i], "an entry of allowed_scopes")
		if err != nil {
			return nil, err
		}
		if name != "project:*" && name != "domain:*" {
			if _, err := parseScope(name); err != nil {
				return nil, fail(f.Value.Items[i].Line, "%v; project:* and domain:* stand for all", err)
			}
		}
		allowed = append(allowed, name)
	}
	return allowed, nil
}

func text(n *yaml.Node, what string) (string, error) {
	switch {
	case n.Kind == yaml.Number || n.Kind == yaml.Bool:
		return "", fail(n.Line, "%s is %s, and must be text: put it into quotes", what, n.Kind)
	case n.Kind != yaml.Text || n.Value == "":
		return "", fail(n.Line, "%s is %s, and must be text that is not empty", what, n.Kind)
	}
	return n.Value, nil
}

func fail(line int, format string, args ...any) error {
	return &yaml.Error{Line: line, Reason: fmt.Sprintf(format, args...)}
}
