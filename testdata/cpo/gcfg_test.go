package cpo

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/gcfg.v1"
	_ "k8s.io/cloud-provider-openstack/pkg/version" // pins the source that guests/openstack/cpo_test.go reads

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

// theirs is the part of cloud-provider-openstack's Config that has one value
// in both, with its names of keys.
type theirs struct {
	Global struct {
		AuthURL      string `gcfg:"auth-url"`
		Region       string
		EndpointType string `gcfg:"os-endpoint-type"`
	}
	Networking struct {
		IPv6SupportDisabled bool     `gcfg:"ipv6-support-disabled"`
		PublicNetworkName   []string `gcfg:"public-network-name"`
		InternalNetworkName []string `gcfg:"internal-network-name"`
	}
	LoadBalancer struct {
		Provider          string   `gcfg:"lb-provider"`
		NodeSelector      string   `gcfg:"node-selector"`
		CreateMonitor     bool     `gcfg:"create-monitor"`
		MonitorDelay      duration `gcfg:"monitor-delay"`
		MonitorMaxRetries uint     `gcfg:"monitor-max-retries"`
		SubnetID          string   `gcfg:"subnet-id"`
	}
	LoadBalancerClass map[string]*class
	Route             struct {
		RouterID string `gcfg:"router-id"`
	}
}

type class struct {
	SubnetID           string `gcfg:"subnet-id"`
	FloatingSubnetTags string `gcfg:"floating-subnet-tags"`
}

type duration struct{ time.Duration }

var _ encoding.TextUnmarshaler = &duration{}

func (d *duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	return err
}

// read is what cloud-provider-openstack does with a cloud.conf; ok is false
// where it does not accept it.
func read(text string) (c theirs, ok bool) {
	defer func() {
		if recover() != nil { // gcfg panics on some wrong files
			ok = false
		}
	}()
	c.Global.EndpointType, c.LoadBalancer.Provider = "public", "amphora"
	c.LoadBalancer.MonitorDelay.Duration, c.LoadBalancer.MonitorMaxRetries = 5*time.Second, 1
	err := gcfg.FatalOnly(gcfg.ReadStringInto(&c, text))
	return c, err == nil
}

// inTheirs puts ours into the same form.
func inTheirs(c *cloudconf.Config) (t theirs) {
	t.Global.AuthURL, t.Global.Region, t.Global.EndpointType = c.Global.AuthURL, c.Global.Region, c.Global.EndpointType
	t.Networking.IPv6SupportDisabled = c.Networking.IPv6SupportDisabled
	t.Networking.PublicNetworkName, t.Networking.InternalNetworkName = c.Networking.PublicNetworkNames, c.Networking.InternalNetworkNames
	lb := &c.LoadBalancer
	t.LoadBalancer.Provider, t.LoadBalancer.NodeSelector, t.LoadBalancer.CreateMonitor = lb.Provider, lb.NodeSelector, lb.CreateMonitor
	t.LoadBalancer.MonitorDelay.Duration, t.LoadBalancer.MonitorMaxRetries = lb.MonitorDelay, uint(lb.MonitorMaxRetries)
	t.LoadBalancer.SubnetID = lb.SubnetID
	for name, c := range c.Classes {
		if t.LoadBalancerClass == nil {
			t.LoadBalancerClass = map[string]*class{}
		}
		t.LoadBalancerClass[name] = &class{c.SubnetID, c.FloatingSubnetTags}
	}
	t.Route.RouterID = c.Route.RouterID
	return t
}

// normal takes away the differences that are meant: empty names of networks
// are left out, times are whole seconds.
func normal(c theirs) theirs {
	empty := func(name string) bool { return name == "" }
	c.Networking.PublicNetworkName = slices.DeleteFunc(c.Networking.PublicNetworkName, empty)
	c.Networking.InternalNetworkName = slices.DeleteFunc(c.Networking.InternalNetworkName, empty)
	if len(c.Networking.PublicNetworkName) == 0 {
		c.Networking.PublicNetworkName = nil
	}
	if len(c.Networking.InternalNetworkName) == 0 {
		c.Networking.InternalNetworkName = nil
	}
	if len(c.LoadBalancerClass) == 0 {
		c.LoadBalancerClass = nil
	}
	c.LoadBalancer.MonitorDelay.Duration = c.LoadBalancer.MonitorDelay.Truncate(time.Second)
	return c
}

// FuzzGcfg compares what our reader and gcfg, which cloud-provider-openstack
// has, make of files that both accept.
func FuzzGcfg(f *testing.F) {
	for _, text := range samples {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}

// compare reports whether both accept the file.
func compare(t *testing.T, text string) bool {
	t.Helper()
	ours, _, err := cloudconf.Parse([]byte(text))
	want, ok := read(text)
	if err != nil || !ok {
		return false
	}
	if got, want := normal(inTheirs(ours)), normal(want); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\nours   %+v\ntheirs %+v", text, got, want)
	}
	return true
}

const head = "[Global]\nauth-url=http://k\n"

var samples = []string{
	head,
	head + "region = RegionOne ; comment\n[LoadBalancer]\ncreate-monitor = yes\nmonitor-delay = 1m\nmonitor-max-retries = 2\nnode-selector = a=b,c\n",
	head + "[Networking]\npublic-network-name=\"a # b\"\npublic-network-name = c\nipv6-support-disabled\n",
	head + "region = a\\\n b \\\n\n", head + "region = \"a\\\"b\\\\\\n\" c \"d\"  e  \n", head + "region = a\\\"b", head + "region =\n\tregion\t=\tx y\t\n",
	head + "[LoadBalancerClass \"a b\"]\nsubnet-id = x\n[LoadBalancerClass \"c\"]\n[loadbalancerclass \"a b\"]\nfloating-subnet-tags=&a,!b\n",
	head + "[Route] # x\nrouter-id = 1 # 2\n[Unknown]\nx = y\n[LoadBalancer]\nsubnet-id = 1\nsubnet-id = 2\nunknown = 1\n",
	strings.ReplaceAll(head+"region = \"x y\"\nregion\t = z \\\n u\n[LoadBalancer]\nsubnet-id = q\n", "\n", "\r\n"),
}

func TestBothAccept(t *testing.T) {
	for _, text := range samples {
		if !compare(t, text) {
			t.Errorf("not accepted by both: %q", text)
		}
	}
}

// What cloud-provider-openstack accepts and we do not, and the reverse; each
// is meant.
func TestMeantDifferences(t *testing.T) {
	tests := map[string]struct {
		text         string
		ours, theirs bool
	}{
		"a typing error in a CIDR, a switch of what is not supported, a slow check: refused with words": {head + "[LoadBalancer]\nmanage-security-groups=true", false, true},
		"secrets belong into a Secret":                      {head + "password = x", false, true},
		"no auth-url":                                       {"[Global]\nregion = x", false, true},
		"a second name where none belongs":                  {head + "[Route \"x\"]\nrouter-id = y", false, true},
		"a class without a name":                            {head + "[LoadBalancerClass]\nsubnet-id = x", false, true},
		"a number in hexadecimal":                           {head + "[LoadBalancer]\nmonitor-max-retries = 0x2", false, true},
		"a number that Octavia refuses":                     {head + "[LoadBalancer]\nmonitor-max-retries = 11", false, true},
		"a list that is emptied by a key without a value":   {head + "[Networking]\npublic-network-name", false, true},
		"a comment with = behind a switch":                  {head + "[Networking]\nipv6-support-disabled # = 1", false, true},
		"letters that are not ASCII in the name of a key":   {head + "schlüssel = x", false, true},
		"an escaped quote in a class's name":                {head + "[LoadBalancerClass \"a\\\"\"]", false, true},
		"seconds without a unit":                            {head + "[LoadBalancer]\nmonitor-delay = 7", true, false},
		"a byte order mark":                                 {"\ufeff" + head, true, false},
		"a backslash at the end of a line within quotes":    {head + "region = \"a\\\nb\"", true, false},
		"an escape without quotes":                          {head + "region = a\\\\b", true, false},
		"text that is no UTF-8, in a comment":               {head + "# \xff", true, false},
		"a section with nothing of ours, with a name of it": {head + "[Global \"\"]", true, false},
	}
	for name, test := range tests {
		_, _, err := cloudconf.Parse([]byte(test.text))
		_, ok := read(test.text)
		if (err == nil) != test.ours || ok != test.theirs {
			t.Errorf("%s: ours %v, theirs %v", name, err, ok)
		}
	}
}
