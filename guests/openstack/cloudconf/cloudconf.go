// Package cloudconf reads cloud.conf, the configuration of
// cloud-provider-openstack. It knows all keys: those in use here, those that
// moved to the manager's configuration, and the unsupported ones.
//
// A cloud.conf of this provider contains no secrets: the package refuses them.
package cloudconf

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Config is a whole cloud.conf. It is read-only after Parse.
type Config struct {
	Global       Global
	Networking   Networking
	LoadBalancer LoadBalancer
	// Classes are the sections [LoadBalancerClass "name"].
	Classes map[string]*Class
	Route   Route
	// BlockStorage is read for volume labels.
	BlockStorage BlockStorage
}

// Global says where the cloud is.
type Global struct {
	// AuthURL is Keystone's, with or without /v3.
	AuthURL string
	Region  string
	// EndpointType is public, internal or admin.
	EndpointType string
	// Credential is the name of the credential in the HostConfiguration.
	Credential string
	// RegionalProviderID makes provider IDs openstack://REGION/ID.
	RegionalProviderID bool
}

// Networking says which addresses of a server are which.
type Networking struct {
	IPv6SupportDisabled  bool
	PublicNetworkNames   []string
	InternalNetworkNames []string
	AddressSortOrder     []netip.Prefix
}

// Class holds the network settings of a class of load balancers, or of the
// cloud.conf for all of them.
type Class struct {
	FloatingNetworkID, FloatingSubnetID, FloatingSubnet, FloatingSubnetTags string
	NetworkID, SubnetID, MemberSubnetID                                     string
}

// LoadBalancer is the section [LoadBalancer].
type LoadBalancer struct {
	Class
	Enabled bool
	// Method is an algorithm of Octavia, empty for the provider's default.
	Method string
	// Provider is Octavia's provider, e.g. amphora or ovn.
	Provider                                 string
	CreateMonitor                            bool
	MonitorDelay, MonitorTimeout             time.Duration
	MonitorMaxRetries, MonitorMaxRetriesDown int
	Internal                                 bool
	// NodeSelector is as written: key=value, key.
	NodeSelector     string
	CascadeDelete    bool
	FlavorID         string
	AvailabilityZone string
	// EnableIngressHostname makes the status of a Service with PROXY protocol a
	// hostname: the address and IngressHostnameSuffix.
	EnableIngressHostname bool
	IngressHostnameSuffix string
	// MaxShared is the number of Services that may share a load balancer.
	MaxShared int
	// Serial makes listeners, pools and members one by one, for providers of
	// Octavia that refuse them together.
	Serial               bool
	TLSContainerRef      string
	ContainerStore       string
	ManageSecurityGroups bool
}

// Route is the section [Route].
type Route struct{ RouterID string }

// BlockStorage is the section [BlockStorage].
type BlockStorage struct{ IgnoreVolumeAZ bool }

// defaults are those of cloud-provider-openstack.
func defaults() *Config {
	return &Config{
		Global: Global{EndpointType: "public", Credential: "openstack"},
		LoadBalancer: LoadBalancer{
			Enabled: true, Provider: "amphora", CascadeDelete: true, MaxShared: 2,
			MonitorDelay: 5 * time.Second, MonitorTimeout: 3 * time.Second, MonitorMaxRetries: 1, MonitorMaxRetriesDown: 3,
			IngressHostnameSuffix: "nip.io", ContainerStore: "barbican",
		},
		Classes: map[string]*Class{},
	}
}

// Parse reads a cloud.conf. Warnings tell people of keys without effect. An
// error has the line and the remedy, and never the value of a secret.
func Parse(data []byte) (*Config, []string, error) {
	p := parser{config: defaults(), keys: index()}
	if err := readINI(string(data), p.entry); err != nil {
		return nil, nil, err
	}
	if err := p.config.check(); err != nil {
		return nil, nil, err
	}
	return p.config, p.warn(), nil
}

type parser struct {
	config    *Config
	keys      map[string]*Key
	elsewhere []string
	warnings  []string
}

func (p *parser) entry(e entry) error {
	if e.header {
		p.header(e)
		return nil
	}
	k, known := p.keys[e.section+"."+e.key]
	switch {
	case !known:
		p.warnings = append(p.warnings, fmt.Sprintf("cloud.conf line %d: [%s] %s is not known and has no effect", e.line, e.section, e.key))
		return nil
	case k.Status == Refused:
		if harmless(e, k) {
			return nil
		}
		return fmt.Errorf("[%s] %s: %s", k.Section, k.Name, k.Note)
	case k.Status == Elsewhere:
		p.elsewhere = append(p.elsewhere, k.Name)
		return nil
	case k.Status == Ignored:
		p.warnings = append(p.warnings, fmt.Sprintf("cloud.conf line %d: [%s] %s has no effect here: %s", e.line, k.Section, k.Name, k.Note))
		return nil
	case (k.Section == classSection) != (e.subsection != ""):
		return fmt.Errorf(`[%s]: write [%s "name"] for a class and nothing but the section's name for the others`, e.section, classSection)
	}
	value := e.value
	if e.blank {
		if k.Type != "bool" {
			return fmt.Errorf("[%s] %s: the value is missing: write %s = value", k.Section, k.Name, k.Name)
		}
		value = "true"
	}
	if err := k.set(p.config, e.subsection, value); err != nil {
		return fmt.Errorf("[%s] %s: %w", k.Section, k.Name, err)
	}
	return nil
}

// header makes a class, even if it has no keys.
func (p *parser) header(e entry) {
	if e.section == strings.ToLower(classSection) && e.subsection != "" && p.config.Classes[e.subsection] == nil {
		p.config.Classes[e.subsection] = &Class{}
	}
}

// harmless: the switch of an unsupported feature may be off.
func harmless(e entry, k *Key) bool {
	if e.blank {
		return false
	}
	if e.value == "" {
		return true
	}
	on, err := parseBool(e.value)
	return k.Type == "bool" && err == nil && !on
}

func (p *parser) warn() []string {
	if lb := &p.config.LoadBalancer; lb.MonitorTimeout > lb.MonitorDelay {
		// Octavia's reference demands it, but Octavia does not check.
		p.warnings = append(p.warnings, "cloud.conf: [LoadBalancer] monitor-timeout is over monitor-delay: a check may begin before the last one has ended")
	}
	if len(p.elsewhere) > 0 {
		slices.Sort(p.elsewhere)
		p.warnings = append(p.warnings, "cloud.conf: "+strings.Join(slices.Compact(p.elsewhere), ", ")+
			" have no effect here: the manager's HostConfiguration has the credential, its signer and the CA bundle")
	}
	if len(p.warnings) > maxWarnings {
		p.warnings = append(p.warnings[:maxWarnings], fmt.Sprintf("and %d more", len(p.warnings)-maxWarnings))
	}
	return p.warnings
}

// maxWarnings bounds the warnings shown to an administrator.
const maxWarnings = 20

func (c *Config) check() error {
	lb := &c.LoadBalancer
	if err := checkURL(c.Global.AuthURL); err != nil {
		return fmt.Errorf("[Global] auth-url %w", err)
	}
	switch {
	case !slices.Contains([]string{"public", "internal", "admin"}, c.Global.EndpointType):
		return fmt.Errorf("[Global] os-endpoint-type: %q is none of public, internal, admin", c.Global.EndpointType)
	case c.Global.RegionalProviderID && c.Global.Region == "":
		return errors.New("[Global] regional-provider-id needs region")
	case lb.ContainerStore != "barbican" && lb.ContainerStore != "external":
		return fmt.Errorf("[LoadBalancer] container-store: %q is none of barbican, external", lb.ContainerStore)
	}
	return nil
}

// checkURL does not quote the URL, which may contain a password.
func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return errors.New("is missing: the URL of Keystone")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return errors.New("is no URL: write https://HOST[:PORT][/PATH]")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has more than https://HOST[:PORT][/PATH]: user and password belong into the Secret of the credential")
	}
	return nil
}
