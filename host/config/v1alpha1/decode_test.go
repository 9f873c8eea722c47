package v1alpha1_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

const file = "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n- "

func parse(t *testing.T, text string) *v1alpha1.HostConfiguration {
	t.Helper()
	c, err := v1alpha1.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func full(t *testing.T) *v1alpha1.HostConfiguration {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

// What does not fit the types is a mistake. Whether a value can be used is not
// asked.
func TestParseIsStrictAndDoesNotValidate(t *testing.T) {
	for text, want := range map[string]string{
		"{name: a, grants: [{hostt: h}]}":      `unknown field "providers[0].grants[0].hostt"`,
		"{name: a, grants: [{host: [h]}]}":     "providers[0].grants[0].host: must be a text",
		"{name: a, limits: {memory: much}}":    "providers[0].limits.memory: must be a quantity",
		"{name: a, name: b}":                   "name",
		strings.Repeat("{}\n- ", 16) + "{}":    "providers: Too many: 17",
		strings.Repeat(" ", v1alpha1.MaxBytes): "at most 1048576 are allowed",
	} {
		if _, err := v1alpha1.Parse([]byte(file + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	if got := parse(t, file+"{grants: [{host: 'no host'}]}").Providers[0].Grants[0]; got.Host != "no host" || got.Port != 443 {
		t.Errorf("%+v", got)
	}
}

func TestDefaults(t *testing.T) {
	c := parse(t, file+"{name: example, source: {configMap: {namespace: kube-system, name: cloud-provider}}}")
	p := c.Providers[0]
	if got := strings.Join(p.Capabilities, " "); got != "store cache nodes event" {
		t.Errorf("without grants: capabilities %q", got)
	}
	if p.Ops.Foreground.Duration != 2*time.Second || p.Limits.Memory.Value() != 64<<20 {
		t.Errorf("ops %v, limits %v", p.Ops, p.Limits)
	}
	if l := p.Limits.Compile; l.Memory.Value() != 512<<20 || l.CPU.Duration != time.Minute || l.Wall.Duration != time.Minute || l.Output.Value() != 256<<20 {
		t.Errorf("limits of a compilation: %+v", l)
	}
	r := p.Rollout
	if r.Probe != v1alpha1.PhaseRequired || r.Shadow != v1alpha1.PhaseRequired || r.Observe != v1alpha1.PhaseRequired {
		t.Errorf("phases of a rollout: %+v", r)
	}
	if r.ShadowSamples != 64 || r.ObservePeriod.Duration != 2*time.Minute || *r.ErrorBudget.Failures != 3 || *r.ErrorBudget.Percent != 5 {
		t.Errorf("rollout: %+v, failures %d, percent %d", r, *r.ErrorBudget.Failures, *r.ErrorBudget.Percent)
	}
	if b := c.DeletionBrake; b.Percent != 10 || b.Nodes != 3 || b.Period.Duration != 30*time.Minute || b.Settle.Duration != 40*time.Second {
		t.Errorf("brake %v", b)
	}
}

func TestDefaultsOfImages(t *testing.T) {
	c := parse(t, file+"{source: {oci: {reference: 'registry.example.com/p:v1', pullSecret: {namespace: ns, name: pull}}}, "+
		"credentials: [{signer: {source: {oci: {reference: 'registry.example.com/s@sha256:0123'}}}}]}")
	oci, signer := c.Providers[0].Source.OCI, c.Providers[0].Credentials[0].Signer.Source.OCI
	if oci.PullPolicy != v1alpha1.PullAlways || oci.Interval.Duration != 5*time.Minute || oci.PullSecret.Name != "pull" {
		t.Errorf("of a tag: %+v", oci)
	}
	if signer.PullPolicy != v1alpha1.PullIfNotPresent || signer.Interval.Duration != 5*time.Minute {
		t.Errorf("of a digest: %+v", signer)
	}
}

func TestKubeIsACapability(t *testing.T) {
	for kube, want := range map[string]bool{"{}": false, "{nodes: true}": true, "{labels: [a]}": true} {
		if c := parse(t, file+"{kube: "+kube+"}"); slices.Contains(c.Providers[0].Capabilities, abi.CapabilityKube) != want {
			t.Errorf("%s: capabilities %q", kube, c.Providers[0].Capabilities)
		}
	}
}

func TestFull(t *testing.T) {
	c := full(t)
	p := c.Providers[0]
	if p.ConfigFrom.ConfigMap.Key != "config.yaml" {
		t.Errorf("default key of a configuration: %q", p.ConfigFrom.ConfigMap.Key)
	}
	if p.Grants[1].Scheme != "https" || p.Grants[1].Port != 443 || p.Grants[1].PathPrefix != "/" {
		t.Errorf("defaults of a grant: %+v", p.Grants[1])
	}
	if got := p.Credentials[2].Basic.PasswordKey; got != "password" {
		t.Errorf("default key of a password: %q", got)
	}
	// Its default is the credential's, since a key that is named must be there.
	if got := p.Credentials[6].AWSSigV4; got.SessionTokenKey != "" || got.AccessKeyIDKey != "access_key_id" {
		t.Errorf("default keys of AWS: %+v", got)
	}
	if got := p.Credentials[7].BodyTemplate.Method; got != "POST" {
		t.Errorf("default method of a body: %q", got)
	}
	if got := p.Ops.Timeouts["lb_ensure"].Duration; got != 5*time.Minute {
		t.Errorf("timeout of lb_ensure: %v", got)
	}
}

func TestFullOfSeveralProviders(t *testing.T) {
	c := full(t)
	one, two := &c.Providers[0], &c.Providers[1]
	if r := one.Rollout; r.Probe != v1alpha1.PhaseAllowed || r.Shadow != v1alpha1.PhaseRequired || r.Observe != v1alpha1.PhaseOff ||
		r.ShadowSamples != 100 || r.ObservePeriod.Duration != 10*time.Minute {
		t.Errorf("rollout %+v", r)
	}
	// No failure at all is not the same as saying nothing.
	if b := one.Rollout.ErrorBudget; *b.Failures != 0 || *b.Percent != 1 {
		t.Errorf("error budget: failures %d, percent %d", *b.Failures, *b.Percent)
	}
	if r := one.Routing; !r.Nodes.Ask || !r.Services.Default || len(r.Services.Classes) != 2 || r.Volumes.Drivers[0] != "csi.example.com" || one.Store != "example-one" {
		t.Errorf("store %q, routing %+v", one.Store, r)
	}
	if len(one.Provenance.Digests) != 1 || len(one.Provenance.PublicKeys) != 2 {
		t.Errorf("provenance %+v", one.Provenance)
	}
	for _, test := range []struct{ got, want []string }{
		{one.NodeSchemes(), []string{"example", "example2"}}, {one.VolumeSchemes(), []string{"example"}},
		{two.NodeSchemes(), []string{"second"}}, {two.VolumeSchemes(), []string{"second"}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("schemes %q, want %q", test.got, test.want)
		}
	}
}
