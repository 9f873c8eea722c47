package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
)

func parse(t *testing.T, args ...string) (*config.Options, error) {
	t.Helper()
	o := config.NewOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parsing %q: %v", args, err)
	}
	return o, o.Validate()
}

func TestDefaultsAreValidWithASource(t *testing.T) {
	for _, arg := range []string{"--provider-configmap=kube-system/cloud-provider", "--provider-dir=" + t.TempDir()} {
		if _, err := parse(t, arg); err != nil {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestConfigMap(t *testing.T) {
	o, err := parse(t, "--provider-configmap=kube-system/cloud-provider")
	if err != nil {
		t.Fatal(err)
	}
	name, err := o.ConfigMap()
	if err != nil || name.Namespace != "kube-system" || name.Name != "cloud-provider" {
		t.Errorf("ConfigMap() = %v, %v", name, err)
	}
}

func TestMistakesNameTheFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	source := "--provider-configmap=a/b"
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "give --provider-configmap=NAMESPACE/NAME or --provider-dir=DIR"},
		{[]string{"--config=/a", source}, "--config and --provider-configmap exclude each other"},
		{[]string{source, "--provider-dir=/tmp"}, "exclude each other"},
		{[]string{"--provider-configmap=name"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-configmap=a/b/c"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-configmap=A/b"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-dir=/does/not/exist"}, "--provider-dir"},
		{[]string{"--provider-dir=" + file}, "is not a directory"},
		{[]string{source, "--provider-store-namespace=A_B"}, "--provider-store-namespace"},
		{[]string{source, "--health-probe-bind-address=nope"}, "--health-probe-bind-address"},
		{[]string{source, "--provider-compilation-cache-size=8Mi"}, "--provider-compilation-cache-size 8Mi: must be at least 16Mi"},
	} {
		if _, err := parse(t, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.want)
		}
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	_, err := parse(t, "--provider-store-namespace=A", "--health-probe-bind-address=nope")
	for _, want := range []string{"--provider-configmap", "--provider-store-namespace", "--health-probe-bind-address"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestHostConfigurationOfFlags(t *testing.T) {
	o, err := parse(t, "--provider-configmap=kube-system/cloud-provider")
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.HostConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	p := c.Providers[0]
	if len(p.Grants) > 0 || slices.Contains(p.Capabilities, "http_send") || p.Limits.Instances != 8 || p.Ops.Timeout.Duration != 30*time.Second || p.Source.ConfigMap.Name != "cloud-provider" {
		t.Errorf("provider %+v", p)
	}
	// The manifests' role names ConfigMaps by this name.
	if p.Name != "provider" || p.Rollout.Observe != v1alpha1.PhaseRequired || *p.Rollout.ErrorBudget.Failures != 3 {
		t.Errorf("provider %q, rollout %+v", p.Name, p.Rollout)
	}
}

func TestHostConfigurationOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	o, err := parse(t, "--config="+file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.HostConfiguration(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.HostConfiguration(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("with another kind: %v", err)
	}
}
