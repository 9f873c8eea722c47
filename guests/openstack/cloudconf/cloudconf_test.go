package cloudconf

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// whole has every supported key.
const whole = `
# A comment
[Global]
auth-url = https://keystone.example.com:5000/v3
region="RegionOne"
os-endpoint-type = internal ; another
credential = cloud
regional-provider-id
[Networking]
IPv6-Support-Disabled = YES
public-network-name = public
public-network-name = "ext; #2"
internal-network-name = k8s
address-sort-order = 10.0.0.7/8, 2001:db8::/32
[LoadBalancer]
enabled = off
lb-provider = ovn
lb-method = SOURCE_IP_PORT
lb-version = v2
create-monitor = 1
monitor-delay = 1m
monitor-timeout = 30
monitor-max-retries = 2
monitor-max-retries-down = 10
internal-lb = true
node-selector = a=b,c
cascade-delete = false
flavor-id = f
availability-zone = az
enable-ingress-hostname = on
ingress-hostname-suffix = example.com
max-shared-lb = 7
provider-requires-serial-api-calls = yes
default-tls-container-ref = https://barbican/v1/containers/c
container-store = external
floating-network-id = fn
floating-subnet-id = fs
floating-subnet = ~^public-.*$
floating-subnet-tags = &a,b
network-id = n
subnet-id = s
member-subnet-id = m
[LoadBalancerClass "internet"] # of the world
floating-network-id = cfn
floating-subnet-id = cfs
floating-subnet = public*
floating-subnet-tags = !x
network-id = cn
subnet-id = cs
member-subnet-id = cm
[LoadBalancerClass "plain"]
[Route]
router-id = r
[BlockStorage]
ignore-volume-az = true
`

func wanted() *Config {
	return &Config{
		Global: Global{AuthURL: "https://keystone.example.com:5000/v3", Region: "RegionOne", EndpointType: "internal", Credential: "cloud", RegionalProviderID: true},
		Networking: Networking{
			IPv6SupportDisabled: true, PublicNetworkNames: []string{"public", "ext; #2"}, InternalNetworkNames: []string{"k8s"},
			AddressSortOrder: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		},
		LoadBalancer: LoadBalancer{
			Class: Class{
				FloatingNetworkID: "fn", FloatingSubnetID: "fs", FloatingSubnet: "~^public-.*$", FloatingSubnetTags: "&a,b",
				NetworkID: "n", SubnetID: "s", MemberSubnetID: "m",
			},
			Provider: "ovn", Method: "SOURCE_IP_PORT", CreateMonitor: true, MonitorDelay: time.Minute, MonitorTimeout: 30 * time.Second,
			MonitorMaxRetries: 2, MonitorMaxRetriesDown: 10, Internal: true, NodeSelector: "a=b,c", FlavorID: "f", AvailabilityZone: "az",
			EnableIngressHostname: true, IngressHostnameSuffix: "example.com", MaxShared: 7, Serial: true,
			TLSContainerRef: "https://barbican/v1/containers/c", ContainerStore: "external",
		},
		Classes: map[string]*Class{
			"internet": {
				FloatingNetworkID: "cfn", FloatingSubnetID: "cfs", FloatingSubnet: "public*", FloatingSubnetTags: "!x",
				NetworkID: "cn", SubnetID: "cs", MemberSubnetID: "cm",
			},
			"plain": {},
		},
		Route:        Route{RouterID: "r"},
		BlockStorage: BlockStorage{IgnoreVolumeAZ: true},
	}
}

var prefixes = cmpopts.EquateComparable(netip.Prefix{})

func TestEveryKey(t *testing.T) {
	for _, text := range []string{whole, strings.ReplaceAll(whole, "\n", "\r\n"), "\ufeff" + whole} {
		got, warnings, err := Parse([]byte(text))
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, %q", err, warnings)
		}
		if diff := cmp.Diff(wanted(), got, prefixes); diff != "" {
			t.Error(diff)
		}
	}
	lower := strings.ToLower(whole)
	for _, key := range Keys() {
		if key.Status == Supported && !strings.Contains(lower, "\n"+key.Name+" ") && !strings.Contains(lower, "\n"+key.Name+"=") && !strings.Contains(lower, "\n"+key.Name+"\n") {
			t.Errorf("this test has no [%s] %s", key.Section, key.Name)
		}
	}
}

func TestDefaults(t *testing.T) {
	got, warnings, err := Parse([]byte("[global]\nauth-url = http://k/identity"))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %q", err, warnings)
	}
	want := defaults()
	want.Global.AuthURL = "http://k/identity"
	if diff := cmp.Diff(want, got, prefixes); diff != "" {
		t.Error(diff)
	}
	if lb := got.LoadBalancer; lb.Provider != "amphora" || lb.MonitorDelay != 5*time.Second || !lb.CascadeDelete || lb.MaxShared != 2 {
		t.Errorf("not what cloud-provider-openstack does: %+v", lb)
	}
	for _, key := range Keys() { // the reference says what is so
		if key.Status != Supported || key.Default == "" {
			continue
		}
		if err := key.set(got, "x", key.Default); err != nil {
			t.Errorf("[%s] %s: the default %q: %v", key.Section, key.Name, key.Default, err)
		}
	}
	if diff := cmp.Diff(want, got, prefixes); diff != "" {
		t.Error("the defaults of Keys are not those of defaults():", diff)
	}
}

// head is a cloud.conf; tests append lines from line 3 on.
const head = "[Global]\nauth-url = https://k\n"

func TestErrors(t *testing.T) {
	long := strings.Repeat("x", maxValue+1)
	tests := map[string]struct{ text, want string }{
		"empty":                     {"", "[Global] auth-url is missing: the URL of Keystone"},
		"not a URL":                 {"[Global]\nauth-url = keystone:5000", "[Global] auth-url is no URL: write https://HOST[:PORT][/PATH]"},
		"no host":                   {"[Global]\nauth-url = https:///v3", "[Global] auth-url is no URL: write https://HOST[:PORT][/PATH]"},
		"another scheme":            {"[Global]\nauth-url = ftp://k", "[Global] auth-url is no URL: write https://HOST[:PORT][/PATH]"},
		"before a section":          {"auth-url = https://k", "line 1: this stands before the first [section]"},
		"no bracket":                {"\n[Global\n", "line 2: this is no section: write [Name] or [Name \"other name\"]"},
		"text behind a header":      {"[Global] region = x", "line 1: this is no section"},
		"no quote":                  {head + `[LoadBalancerClass "x]`, "line 3: this is no section"},
		"a section of two words":    {head + "[Load Balancer]", "line 3: this is no section"},
		"no key":                    {head + "= x", "line 3: no key is here: write key = value, or # before a comment"},
		"two words":                 {head + "re gion = x", "line 3: no key is here"},
		"a key of many bytes":       {head + strings.Repeat("k", maxName+1) + " = x", "line 3: no key is here"},
		"a value of many bytes":     {head + "region = " + long, "line 3: [global] region: a value of 4097 bytes, the most is 4096"},
		"a name of many bytes":      {head + `[LoadBalancerClass "` + long + `"]`, "line 3: this is no section"},
		"an open quote":             {head + "\nregion = \"x\n", "line 4: a closing \" is missing"},
		"an unknown escape":         {head + `region = "\q"`, "line 3: unknown behind \\: write \\\\ \\\" \\n or \\t"},
		"a string without a value":  {head + "region", "line 3: [Global] region: the value is missing: write region = value"},
		"a list without a value":    {head + "[Networking]\npublic-network-name", "line 4: [Networking] public-network-name: the value is missing"},
		"a password":                {head + "password = x", "line 3: [Global] password: secrets do not belong here: put it into a Kubernetes Secret"},
		"a switch":                  {head + "[LoadBalancer]\nenabled = maybe", `line 4: [LoadBalancer] enabled: "maybe" is neither true nor false`},
		"a number":                  {head + "[LoadBalancer]\nmax-shared-lb = 0", `line 4: [LoadBalancer] max-shared-lb: "0" is not a number of 1 to 100`},
		"a large number":            {head + "[LoadBalancer]\nmonitor-max-retries = 11", `"11" is not a number of 1 to 10`},
		"a time":                    {head + "[LoadBalancer]\nmonitor-delay = soon", `line 4: [LoadBalancer] monitor-delay: "soon" is not a time of 1s to 1h`},
		"a short time":              {head + "[LoadBalancer]\nmonitor-delay = 999ms", `"999ms" is not a time of 1s to 1h`},
		"a negative time":           {head + "[LoadBalancer]\nmonitor-delay = -5s", `"-5s" is not a time of 1s to 1h`},
		"a CIDR":                    {head + "[Networking]\naddress-sort-order = 10.0.0.0/8, 10.0.0.0/244", `line 4: [Networking] address-sort-order: "10.0.0.0/244" is not a CIDR`},
		"a class without a name":    {head + "[LoadBalancerClass]\nsubnet-id = x", `line 4: [loadbalancerclass]: write [LoadBalancerClass "name"]`},
		"a name without a class":    {head + "[LoadBalancer \"x\"]\nsubnet-id = x", `line 4: [loadbalancer]: write [LoadBalancerClass "name"]`},
		"old":                       {head + "[LoadBalancer]\nlb-version = v1", "line 4: [LoadBalancer] lb-version: only v2 is there: Octavia"},
		"endpoints":                 {head + "os-endpoint-type = publicURL", `[Global] os-endpoint-type: "publicURL" is none of public, internal, admin`},
		"a region":                  {head + "regional-provider-id = true", "[Global] regional-provider-id needs region"},
		"a store":                   {head + "[LoadBalancer]\ncontainer-store = vault", `container-store: "vault" is none of barbican, external`},
		"security groups":           {head + "[LoadBalancer]\nmanage-security-groups = true", "line 4: [LoadBalancer] manage-security-groups: security groups are not managed"},
		"certificates":              {head + "tls-insecure", "line 3: [Global] tls-insecure: certificates are always checked"},
		"a large file":              {head + strings.Repeat("#\n", maxBytes), "the file has 524318 bytes, the most is 262144"},
		"many lines":                {head + strings.Repeat("region=x\n", maxEntries), "line 4097: more than 4096 entries"},
		"the line after a long one": {head + "region = a\\\n b\\\n c\nos-endpoint-type", "line 6: [Global] os-endpoint-type: the value is missing"},
	}
	for name, test := range tests {
		config, _, err := Parse([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", name, err, test.want)
		} else if config != nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s: a config (%v), or not one short line: %v", name, config != nil, err)
		}
	}
}

// Each refused key is harmless while off or empty, as in generated files.
func TestRefused(t *testing.T) {
	for _, key := range Keys() {
		if key.Status != Refused {
			continue
		}
		header := head + "[" + key.Section + "]\n" + key.Name
		if _, _, err := Parse([]byte(header + " = ")); err != nil {
			t.Errorf("%s, empty: %v", key.Name, err)
		}
		if key.Type == "bool" {
			if _, _, err := Parse([]byte(header + " = false")); err != nil {
				t.Errorf("%s, off: %v", key.Name, err)
			}
		}
		for _, set := range []string{" = true", " = x", ""} {
			if _, _, err := Parse([]byte(header + set)); err == nil || !strings.Contains(err.Error(), key.Note) {
				t.Errorf("%s%s: %v", key.Name, set, err)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	text := head + "username = u\ntenant-name = t\ncloud = c\nflavour = x\n[Metadata]\nsearch-order = configDrive\n[Somewhere]\nx\n[LoadBalancer]\nsubnet-id = s\nmonitor-timeout = 6\n"
	config, warnings, err := Parse([]byte(text))
	if err != nil || config.LoadBalancer.SubnetID != "s" {
		t.Fatal(config, err)
	}
	want := []string{
		"cloud.conf line 5: [Global] cloud has no effect here: there are no files here",
		"cloud.conf line 6: [global] flavour is not known and has no effect",
		"cloud.conf line 8: [Metadata] search-order has no effect here: the manager does not run on the machine that it asks about",
		"cloud.conf line 10: [somewhere] x is not known and has no effect",
		"cloud.conf: [LoadBalancer] monitor-timeout is over monitor-delay: a check may begin before the last one has ended",
		"cloud.conf: tenant-name, username have no effect here: the manager's HostConfiguration has the credential, its signer and the CA bundle",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	_, warnings, err = Parse([]byte(head + strings.Repeat("x = y\n", 1000)))
	if err != nil || len(warnings) != maxWarnings+1 || warnings[maxWarnings] != "and 980 more" {
		t.Errorf("%d warnings, the last %q; %v", len(warnings), warnings[len(warnings)-1], err)
	}
}

// A secret in a cloud.conf, at its place or elsewhere, is in no message.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"[Global]\nauth-url = https://user:hunter2@k", "[Global]\nauth-url = https://k?token=hunter2", "[Global]\nauth-url = hunter2", "[Global]\nauth-url = https://%hunter2",
		head + "password = hunter2", head + "password: hunter2", head + "password hunter2", head + "password=\"hunter2", head + `password="\hunter2"`,
		head + "application-credential-secret = hunter2", head + "trustee-password = hunter2", head + "passwort = hunter2", head + "hunter2 hunter2", head + "-hunter2=",
		"password = hunter2", "hunter2", "[hunter2\n", "[Global] password = hunter2", "[Global]hunter2", "[Globall]\npassword = hunter2\n" + head,
		head + "username = hunter2", head + "password = " + strings.Repeat(secret, maxValue),
	} {
		_, warnings, err := Parse([]byte(text))
		if err == nil && len(warnings) == 0 {
			t.Errorf("%q is accepted without a word", text)
		}
		if err != nil {
			warnings = append(warnings, err.Error())
		}
		if slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, secret) }) {
			t.Errorf("%q: %q", text, warnings)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(head + "password = x\n[LoadBalancerClass \"a\"]\nsubnet-id=\\\n  \"b\"#c")
	f.Add("[a \"\\\"\"]\nb=\"\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		config, warnings, err := Parse([]byte(text))
		if err != nil {
			if config != nil || len(err.Error()) > 10000 {
				t.Fatalf("%d bytes of an error, config %v", len(err.Error()), config)
			}
			return
		}
		if config.Global.AuthURL == "" || len(warnings) > maxWarnings+1 {
			t.Fatalf("%+v, %q", config, warnings)
		}
		again, _, err := Parse([]byte(text))
		if diff := cmp.Diff(config, again, prefixes); err != nil || diff != "" {
			t.Fatal(diff, err)
		}
	})
}
