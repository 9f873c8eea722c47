package cloudconf

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Status says how a key is treated.
type Status string

// The statuses.
const (
	Supported Status = "supported"
	// Elsewhere: the key moved to the manager's configuration.
	Elsewhere Status = "in the HostConfiguration"
	// Ignored: the key has no effect here, and a warning says so.
	Ignored Status = "no effect"
	// Refused: a cloud.conf with the key is refused.
	Refused Status = "refused"
)

// Key is one key of cloud.conf, for Parse and for the reference.
type Key struct {
	Section, Name string
	// Type is string, bool, number, duration or list.
	Type    string
	Default string
	Status  Status
	// Note is for people: the effect, or the reason why there is none.
	Note string
	set  func(c *Config, class, value string) error
}

const classSection = "LoadBalancerClass"

// Keys are all keys, in the order of the reference.
func Keys() []Key {
	keys := globalKeys()
	keys = append(keys, networkingKeys()...)
	keys = append(keys, loadBalancerKeys()...)
	keys = append(keys, networkKeys("LoadBalancer", func(c *Config, _ string) *Class { return &c.LoadBalancer.Class })...)
	keys = append(keys, networkKeys(classSection, func(c *Config, name string) *Class {
		if c.Classes[name] == nil {
			c.Classes[name] = &Class{}
		}
		return c.Classes[name]
	})...)
	return append(keys, otherKeys()...)
}

func index() map[string]*Key {
	keys := Keys()
	m := make(map[string]*Key, len(keys))
	for i := range keys {
		m[strings.ToLower(keys[i].Section+"."+keys[i].Name)] = &keys[i]
	}
	return m
}

func globalKeys() []Key {
	const secret = "secrets do not belong here: put it into a Kubernetes Secret, which a signer of the HostConfiguration gets (guests/signer-keystone)"
	const signer = "the configuration and the Secret of the signer"
	global := func(name, kind string, status Status, note string) Key {
		return Key{Section: "Global", Name: name, Type: kind, Status: status, Note: note}
	}
	keys := []Key{
		text("Global", "auth-url", "", "URL of Keystone", func(c *Config) *string { return &c.Global.AuthURL }),
		text("Global", "region", "", "region of the endpoints; needed where the cloud has several", func(c *Config) *string { return &c.Global.Region }),
		text("Global", "os-endpoint-type", "public", "public, internal or admin", func(c *Config) *string { return &c.Global.EndpointType }),
		text("Global", "credential", "openstack", "name of the credential in the HostConfiguration; a key of this provider only", func(c *Config) *string { return &c.Global.Credential }),
		flag("Global", "regional-provider-id", "false", "provider IDs with the region in them, as OS_CCM_REGIONAL=true does; a key of this provider only",
			func(c *Config) *bool { return &c.Global.RegionalProviderID }),
	}
	for _, name := range []string{"password", "application-credential-secret", "trustee-password"} {
		keys = append(keys, global(name, "string", Refused, secret))
	}
	for _, name := range []string{
		"username", "user-id", "tenant-id", "tenant-name", "domain-id", "domain-name", "tenant-domain-id", "tenant-domain-name",
		"user-domain-id", "user-domain-name", "application-credential-id", "application-credential-name",
	} {
		keys = append(keys, global(name, "string", Elsewhere, signer))
	}
	return append(keys,
		global("ca-file", "string", Elsewhere, "providers[].grants[].caBundle"),
		global("tls-insecure", "bool", Refused, "certificates are always checked: give the CA bundle in the HostConfiguration"),
		global("cert-file", "string", Refused, "client certificates are not supported"),
		global("key-file", "string", Refused, "client certificates are not supported"),
		global("trust-id", "string", Refused, "trusts are not supported: use an application credential"),
		global("trustee-id", "string", Refused, "trusts are not supported: use an application credential"),
		global("use-clouds", "bool", Refused, "there are no files here: write the values into cloud.conf and the HostConfiguration"),
		global("clouds-file", "string", Ignored, "there are no files here"),
		global("cloud", "string", Ignored, "there are no files here"),
	)
}

func networkingKeys() []Key {
	const section = "Networking"
	return []Key{
		flag(section, "ipv6-support-disabled", "false", "leave IPv6 addresses of Nodes out", func(c *Config) *bool { return &c.Networking.IPv6SupportDisabled }),
		list(section, "public-network-name", "networks whose addresses are ExternalIP; may be repeated", func(c *Config) *[]string { return &c.Networking.PublicNetworkNames }),
		list(section, "internal-network-name", "networks whose addresses are InternalIP; those of others are left out; may be repeated",
			func(c *Config) *[]string { return &c.Networking.InternalNetworkNames }),
		{Section: section, Name: "address-sort-order", Type: "list", Status: Supported, Note: "CIDRs: which addresses of a Node come first",
			set: func(c *Config, _, value string) error { return c.Networking.setSortOrder(value) }},
	}
}

// setSortOrder reads a list of CIDRs.
func (n *Networking) setSortOrder(value string) error {
	n.AddressSortOrder = nil
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			return fmt.Errorf("%q is not a CIDR", item)
		}
		n.AddressSortOrder = append(n.AddressSortOrder, prefix.Masked())
	}
	return nil
}

func loadBalancerKeys() []Key {
	const section = "LoadBalancer"
	lb := func(c *Config) *LoadBalancer { return &c.LoadBalancer }
	return []Key{
		flag(section, "enabled", "true", "whether Services get load balancers at all", func(c *Config) *bool { return &lb(c).Enabled }),
		text(section, "lb-provider", "amphora", "provider of Octavia: amphora, ovn, or another", func(c *Config) *string { return &lb(c).Provider }),
		text(section, "lb-method", "", "algorithm; default ROUND_ROBIN, with ovn SOURCE_IP_PORT", func(c *Config) *string { return &lb(c).Method }),
		{Section: section, Name: "lb-version", Type: "string", Default: "v2", Status: Supported, Note: "only v2", set: func(_ *Config, _, value string) error {
			if value != "" && value != "v2" {
				return errors.New("only v2 is there: Octavia")
			}
			return nil
		}},
		flag(section, "create-monitor", "false", "health monitors for all Services", func(c *Config) *bool { return &lb(c).CreateMonitor }),
		period(section, "monitor-delay", "5s", "time between two checks of a member", func(c *Config) *time.Duration { return &lb(c).MonitorDelay }),
		period(section, "monitor-timeout", "3s", "how long one check may take", func(c *Config) *time.Duration { return &lb(c).MonitorTimeout }),
		number(section, "monitor-max-retries", "1", "checks that succeed before a member is up, 1 to 10", 1, 10, func(c *Config) *int { return &lb(c).MonitorMaxRetries }),
		number(section, "monitor-max-retries-down", "3", "checks that fail before a member is down, 1 to 10", 1, 10, func(c *Config) *int { return &lb(c).MonitorMaxRetriesDown }),
		flag(section, "internal-lb", "false", "no floating IP, unless the Service says otherwise", func(c *Config) *bool { return &lb(c).Internal }),
		text(section, "node-selector", "", "labels that members must have: key=value, key", func(c *Config) *string { return &lb(c).NodeSelector }),
		flag(section, "cascade-delete", "true", "delete a load balancer with one call", func(c *Config) *bool { return &lb(c).CascadeDelete }),
		text(section, "flavor-id", "", "flavor of Octavia", func(c *Config) *string { return &lb(c).FlavorID }),
		text(section, "availability-zone", "", "availability zone of Octavia", func(c *Config) *string { return &lb(c).AvailabilityZone }),
		flag(section, "enable-ingress-hostname", "false", "with PROXY protocol: a name in the status instead of the address", func(c *Config) *bool { return &lb(c).EnableIngressHostname }),
		text(section, "ingress-hostname-suffix", "nip.io", "what follows the address in that name", func(c *Config) *string { return &lb(c).IngressHostnameSuffix }),
		number(section, "max-shared-lb", "2", "Services that may share one load balancer", 1, 100, func(c *Config) *int { return &lb(c).MaxShared }),
		flag(section, "provider-requires-serial-api-calls", "false", "create a load balancer piece by piece", func(c *Config) *bool { return &lb(c).Serial }),
		text(section, "default-tls-container-ref", "", "TLS container of the listeners, which become TERMINATED_HTTPS", func(c *Config) *string { return &lb(c).TLSContainerRef }),
		text(section, "container-store", "barbican", "barbican: the reference must be a URL of a container or secret; external: anything", func(c *Config) *string { return &lb(c).ContainerStore }),
		{Section: section, Name: "manage-security-groups", Type: "bool", Default: "false", Status: Refused,
			Note: "security groups are not managed: allow the node ports to the load balancers in the groups of the nodes, and leave this out"},
	}
}

func networkKeys(section string, class func(c *Config, name string) *Class) []Key {
	key := func(name, note string, field func(*Class) *string) Key {
		return Key{Section: section, Name: name, Type: "string", Status: Supported, Note: note, set: func(c *Config, sub, value string) error {
			*field(class(c, sub)) = value
			return nil
		}}
	}
	return []Key{
		key("floating-network-id", "external network of the floating IPs", func(c *Class) *string { return &c.FloatingNetworkID }),
		key("floating-subnet-id", "its subnet", func(c *Class) *string { return &c.FloatingSubnetID }),
		key("floating-subnet", "its subnets by name: a glob, or a regular expression behind ~; ! negates", func(c *Class) *string { return &c.FloatingSubnet }),
		key("floating-subnet-tags", "its subnets by tags; & wants all of them, ! negates", func(c *Class) *string { return &c.FloatingSubnetTags }),
		key("network-id", "network of the VIP", func(c *Class) *string { return &c.NetworkID }),
		key("subnet-id", "subnet of the VIP", func(c *Class) *string { return &c.SubnetID }),
		key("member-subnet-id", "subnet of the members", func(c *Class) *string { return &c.MemberSubnetID }),
	}
}

func otherKeys() []Key {
	const metadata = "the manager does not run on the machine that it asks about"
	ignored := func(section, name string) Key {
		return Key{Section: section, Name: name, Type: "string", Status: Ignored, Note: metadata}
	}
	csi := func(name string) Key {
		return Key{Section: "BlockStorage", Name: name, Type: "string", Status: Ignored, Note: "a key of the CSI driver's, which has a cloud.conf of its own"}
	}
	return []Key{
		text("Route", "router-id", "", "router that gets the routes of the pod networks; without it there are no routes", func(c *Config) *string { return &c.Route.RouterID }),
		flag("BlockStorage", "ignore-volume-az", "false", "no zone label on volumes", func(c *Config) *bool { return &c.BlockStorage.IgnoreVolumeAZ }),
		csi("node-volume-attach-limit"), csi("rescan-on-resize"), csi("ignore-volume-microversion"),
		ignored("Metadata", "search-order"),
		{Section: "Metadata", Name: "request-timeout", Type: "duration", Status: Elsewhere, Note: "providers[].limits and providers[].grants"},
	}
}

func text(section, name, def, note string, field func(*Config) *string) Key {
	return Key{Section: section, Name: name, Type: "string", Default: def, Status: Supported, Note: note, set: func(c *Config, _, value string) error {
		*field(c) = value
		return nil
	}}
}

func flag(section, name, def, note string, field func(*Config) *bool) Key {
	return Key{Section: section, Name: name, Type: "bool", Default: def, Status: Supported, Note: note, set: func(c *Config, _, value string) (err error) {
		*field(c), err = parseBool(value)
		return err
	}}
}

func parseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", value)
}

func list(section, name, note string, field func(*Config) *[]string) Key {
	return Key{Section: section, Name: name, Type: "list", Status: Supported, Note: note, set: func(c *Config, _, value string) error {
		if value != "" {
			*field(c) = append(*field(c), value)
		}
		return nil
	}}
}

func number(section, name, def, note string, low, high int, field func(*Config) *int) Key {
	return Key{Section: section, Name: name, Type: "number", Default: def, Status: Supported, Note: note, set: func(c *Config, _, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a number of %d to %d", value, low, high)
		}
		*field(c) = n
		return nil
	}}
}

// maxPeriod bounds the times of health monitors.
const maxPeriod = time.Hour

func period(section, name, def, note string, field func(*Config) *time.Duration) Key {
	return Key{Section: section, Name: name, Type: "duration", Default: def, Status: Supported, Note: note, set: func(c *Config, _, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			d, err = time.ParseDuration(value + "s")
		}
		if err != nil || d < time.Second || d > maxPeriod {
			return fmt.Errorf("%q is not a time of 1s to 1h", value)
		}
		*field(c) = d.Truncate(time.Second)
		return nil
	}}
}
