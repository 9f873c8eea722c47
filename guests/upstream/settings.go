package upstream

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// Settings is the configuration of the guest: what a provider's Deployment
// would have as flags, environment and files.
type Settings struct {
	// Env is the provider's environment. It is no place for secrets: a provider
	// that needs a key to sign with gets a dummy, and the host signs again.
	Env map[string]string `json:"env,omitempty"`
	// Flags are the provider's own flags, by their names without dashes: those
	// that its packages declare in flag.CommandLine or pflag.CommandLine.
	Flags map[string]string `json:"flags,omitempty"`
	// CloudConfig is the content of the file of --cloud-config.
	CloudConfig string `json:"cloudConfig,omitempty"`
	// Requests say how requests leave. The first that matches counts.
	Requests []Rule `json:"requests,omitempty"`
	// StrictExistence, on by default: the adapter says "does not exist" only
	// when the cloud said it by a word of Gone, by a document of its own with status
	// 404 or 410, or by a whole list with another instance that is known. Otherwise it
	// is an error.
	StrictExistence *bool `json:"strictExistence,omitempty"`
	// Gone are words of the cloud for something that is not there, an error's
	// code or a state, beside those that the guest was built with.
	Gone []string `json:"gone,omitempty"`
	// Loopback are URLs on loopback that the provider uses, http://127.0.0.1:8080:
	// HTTP clients use no proxy for these.
	Loopback []string `json:"loopback,omitempty"`
	// AllowUntagged lets a provider run that has no cluster ID.
	AllowUntagged bool `json:"allowUntagged,omitempty"`
	// Verbosity is klog's.
	Verbosity int32 `json:"verbosity,omitempty"`
}

// Rule is for the requests to some hosts.
type Rule struct {
	// Host is a pattern of path.Match for the name without the port: "*" stands
	// for any number of characters, dots as well.
	Host string `json:"host"`
	// PathPrefix, unless empty, is how the path begins, for a cloud with several
	// APIs on one host.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Credential is the name of the one that the host adds. What the provider
	// itself authenticates with is then left out.
	Credential string `json:"credential,omitempty"`
	// Session says that the host keeps the sessions of the credential: the
	// provider has placeholders for them, and its cookies go along.
	Session bool `json:"session,omitempty"`
	// Upgrade sends http:// as https://, so that TLS is the host's alone.
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

// rule is the first that matches, or the zero rule.
func (s *Settings) rule(u *url.URL) Rule {
	for _, rule := range s.Requests {
		if ok, err := path.Match(rule.Host, u.Hostname()); ok && err == nil && strings.HasPrefix(u.EscapedPath(), rule.PathPrefix) {
			return rule
		}
	}
	return Rule{}
}
