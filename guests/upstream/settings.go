package upstream

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// Settings is the guest's configuration: the flags, environment and files of a
// provider's Deployment.
type Settings struct {
	// Env is the provider's environment. It is no place for secrets: a provider
	// that needs a key to sign gets a dummy, and the host signs again.
	Env map[string]string `json:"env,omitempty"`
	// Flags are the provider's own flags, by name without dashes: those that
	// its packages declare in flag.CommandLine or pflag.CommandLine.
	Flags map[string]string `json:"flags,omitempty"`
	// CloudConfig is the content of the file of --cloud-config.
	CloudConfig string `json:"cloudConfig,omitempty"`
	// Requests say how requests leave. The first match counts.
	Requests []Rule `json:"requests,omitempty"`
	// StrictExistence, on by default: the adapter says "does not exist" only if
	// the cloud said it by a word of Gone, by its own document with status 404
	// or 410, or by a complete list with another known instance. Otherwise the
	// answer is an error.
	StrictExistence *bool `json:"strictExistence,omitempty"`
	// Gone adds words of the cloud for something that does not exist, an
	// error's code or a state, to those that the guest was built with.
	Gone []string `json:"gone,omitempty"`
	// Loopback are URLs on loopback that the provider uses, http://127.0.0.1:8080:
	// HTTP clients use no proxy for these.
	Loopback []string `json:"loopback,omitempty"`
	// AllowUntagged lets a provider run without a cluster ID.
	AllowUntagged bool `json:"allowUntagged,omitempty"`
	// Verbosity is klog's.
	Verbosity int32 `json:"verbosity,omitempty"`
}

// Rule is for the requests to some hosts.
type Rule struct {
	// Host is a pattern of path.Match for the name without the port: "*" stands
	// for any number of characters, dots included.
	Host string `json:"host"`
	// PathPrefix, unless empty, is the begin of the path, for a cloud with
	// several APIs on one host.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Credential is the name of the credential that the host adds. The
	// provider's own authentication is then left out.
	Credential string `json:"credential,omitempty"`
	// Session says that the host keeps the credential's sessions: the provider
	// has placeholders for them, and its cookies are sent.
	Session bool `json:"session,omitempty"`
	// Upgrade sends http:// as https://, so that only the host speaks TLS.
	Upgrade bool `json:"upgrade,omitempty"`
}

func readSettings(text []byte) (Settings, error) {
	var s Settings
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return s, err
	}
	for i, rule := range s.Requests {
		if _, err := path.Match(rule.Host, ""); err != nil || rule.Host == "" {
			return s, fmt.Errorf("requests[%d].host: %q is no pattern: give a name, or one with *, such as *.example.com", i, rule.Host)
		}
	}
	for i, address := range s.Loopback {
		if u, ok := webURL(address); !ok || u.Port() == "" {
			return s, fmt.Errorf("loopback[%d]: %q: give a URL with a port, such as http://127.0.0.1:8080", i, address)
		}
	}
	return s, nil
}

func webURL(text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	return u, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func (s *Settings) strict() bool { return s.StrictExistence == nil || *s.StrictExistence }

// rule is the first match, or the zero rule.
func (s *Settings) rule(u *url.URL) Rule {
	for _, rule := range s.Requests {
		if ok, err := path.Match(rule.Host, u.Hostname()); ok && err == nil && strings.HasPrefix(u.EscapedPath(), rule.PathPrefix) {
			return rule
		}
	}
	return Rule{}
}
