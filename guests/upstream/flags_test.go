package upstream

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// A provider reads its packages' flags, of either library, when it is made:
// nothing in a guest parses a command line.
func TestFlags(t *testing.T) {
	plan := flag.String("fake-plan", "", "")
	timeout := pflag.Duration("fake-timeout", time.Second, "")
	both := flag.Int("fake-both", 0, "how many")
	pflag.CommandLine.AddGoFlag(flag.Lookup("fake-both"))
	made := ""
	r := newRig(t, "flags: {fake-plan: small, fake-timeout: 3s, fake-both: '7'}", func(*Environment) (cloudprovider.Interface, error) {
		made = *plan
		return &cloud{}, nil
	})
	if *timeout != 3*time.Second || *both != 7 || !pflag.CommandLine.Changed("fake-timeout") {
		t.Errorf("timeout %s, both %d", *timeout, *both)
	}
	if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil || made != "small" {
		t.Errorf("the constructor saw plan %q; %v", made, err)
	}
	for config, want := range map[string]string{
		"flags: {fake-plam: small}":      `the provider declares no "fake-plam". It has fake-both, fake-plan, fake-timeout`,
		"flags: {fake-timeout: quickly}": `fake-timeout: "quickly"`,
		"flags: {fake-both: both}":       `the flag's default is "0": how many`,
	} {
		_, err := newProvider("fake", "1", nil).Configure(nil, sdk.Config{Bytes: []byte(config)})
		if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want invalid with %q", config, err, want)
		}
	}
}
