package config_test

import (
	"os"
	"path/filepath"
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
		{[]string{"--config=/a", source, "--provider-max-instances=3"}, "--config and --provider-configmap, --provider-max-instances exclude each other"},
		{[]string{source, "--provider-dir=/tmp"}, "exclude each other"},
		{[]string{"--provider-configmap=name"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-configmap=a/b/c"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-configmap=A/b"}, "must be NAMESPACE/NAME"},
		{[]string{"--provider-dir=/does/not/exist"}, "--provider-dir"},
		{[]string{"--provider-dir=" + file}, "is not a directory"},
		{[]string{source, "--provider-store-namespace=A_B"}, "--provider-store-namespace"},
		{[]string{source, "--health-probe-bind-address=nope"}, "--health-probe-bind-address"},
		{[]string{source, "--provider-op-timeout=1ns"}, "--provider-op-timeout"},
		{[]string{source, "--provider-max-instances=0"}, "--provider-max-instances"},
		{[]string{source, "--provider-max-calls-per-instance=-1"}, "--provider-max-calls-per-instance"},
		{[]string{source, "--provider-max-memory-bytes=1"}, "--provider-max-memory-bytes"},
		{[]string{source, "--provider-max-module-bytes=0"}, "--provider-max-module-bytes"},
		{[]string{source, "--provider-allow-cidr=10.0.0.0"}, "--provider-allow-cidr"},
	} {
		if _, err := parse(t, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.want)
		}
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	_, err := parse(t, "--provider-op-timeout="+(2*time.Hour).String(), "--provider-max-instances=0")
	for _, want := range []string{"--provider-configmap", "--provider-op-timeout", "--provider-max-instances"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestHostConfigurationOfFlags(t *testing.T) {
	o, err := parse(t, "--provider-configmap=kube-system/cloud-provider", "--provider-allow-url=https://API.example.com:8774/v2/",
		"--provider-allow-cidr=10.1.2.3/8", "--provider-max-instances=3", "--provider-op-timeout=7s")
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.HostConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	p := c.Providers[0]
	g := p.Grants[0]
	if g.Scheme != "https" || g.Host != "api.example.com" || g.Port != 8774 || g.PathPrefix != "/v2/" || g.CIDRs[0] != "10.0.0.0/8" {
		t.Errorf("grant %+v", g)
	}
	if p.Limits.Instances != 3 || p.Ops.Timeout.Duration != 7*time.Second || p.Source.ConfigMap.Name != "cloud-provider" {
		t.Errorf("provider %+v", p)
	}
	// The role of the manifests names ConfigMaps after it.
	if p.Name != "provider" || p.Rollout.Observe != v1alpha1.PhaseRequired || *p.Rollout.ErrorBudget.Failures != 3 {
		t.Errorf("provider %q, rollout %+v", p.Name, p.Rollout)
	}
}

func TestURLsOfFlagsDoNotRepeatPasswords(t *testing.T) {
	for _, prefix := range []string{"https://me:hunter2@example.com/", "https://example.com/?token=hunter2", "https://hunter2:x/", "hunter2"} {
		o, err := parse(t, "--provider-configmap=a/b", "--provider-allow-url="+prefix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.HostConfiguration(); err == nil || !strings.Contains(err.Error(), "--provider-allow-url") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", prefix, err)
		}
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
