package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// FlagProvider is what the provider of the flags is called, and the ConfigMaps
// of its rollout after it; in --config every provider has a name of its own.
const FlagProvider = "provider"

// replaced are the flags that --config stands for.
var replaced = [...]string{
	"provider-configmap", "provider-dir", "provider-op-timeout", "provider-max-instances",
	"provider-max-calls-per-instance", "provider-max-memory-bytes", "provider-max-module-bytes",
	"provider-allow-url", "provider-allow-cidr",
}

// excluded returns an error when --config is given together with a flag that
// it stands for: nobody should have to know which of them wins.
func (o *Options) excluded() error {
	if o.ConfigFile == "" || o.flags == nil {
		return nil
	}
	var both []string
	for _, name := range replaced {
		if o.flags.Changed(name) {
			both = append(both, "--"+name)
		}
	}
	if len(both) > 0 {
		return fmt.Errorf("--config and %s exclude each other: say it in the file", strings.Join(both, ", "))
	}
	return nil
}

// HostConfiguration returns what the file of --config says, or what the flags
// do. Options are valid (Validate).
func (o *Options) HostConfiguration() (*v1alpha1.HostConfiguration, error) {
	if o.ConfigFile == "" {
		return o.ofFlags()
	}
	data, err := readBounded(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	c, err := v1alpha1.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", o.ConfigFile, err)
	}
	return c, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, v1alpha1.MaxBytes+1))
	return data, errors.Join(err, f.Close())
}

func (o *Options) ofFlags() (*v1alpha1.HostConfiguration, error) {
	p := v1alpha1.Provider{Name: FlagProvider}
	p.Ops.Timeout.Duration = o.OpTimeout
	p.Limits = v1alpha1.Limits{
		Instances: o.MaxInstances, CallsPerInstance: o.MaxCallsPerInstance,
		Memory: *resource.NewQuantity(o.MaxMemoryBytes, resource.BinarySI),
		Module: *resource.NewQuantity(o.MaxModuleBytes, resource.BinarySI),
	}
	p.Source.Directory = o.ProviderDir
	if o.ProviderConfigMap != "" {
		name, err := o.ConfigMap()
		if err != nil {
			return nil, err
		}
		p.Source.ConfigMap = &v1alpha1.Reference{Namespace: name.Namespace, Name: name.Name}
	}
	cidrs, err := o.CIDRs()
	if err != nil {
		return nil, err
	}
	for _, prefix := range o.AllowedURLs {
		grant, err := grantOf(prefix)
		if err != nil {
			return nil, err
		}
		for _, cidr := range cidrs {
			grant.CIDRs = append(grant.CIDRs, cidr.String())
		}
		p.Grants = append(p.Grants, grant)
	}
	c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{p}}
	v1alpha1.SetDefaults(c)
	if err := v1alpha1.Validate(c).ToAggregate(); err != nil {
		return nil, fmt.Errorf("--provider-...: %w", err)
	}
	return c, nil
}

// grantOf takes a URL prefix apart; egress checks what is in it. The error
// does not repeat it, since it may hold a password.
func grantOf(prefix string) (v1alpha1.Grant, error) {
	u, err := url.Parse(prefix)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(prefix, "#") {
		return v1alpha1.Grant{}, errors.New("--provider-allow-url: give https://HOST[:PORT][/PATH/], without user name, password, query and fragment")
	}
	port, err := strconv.ParseUint("0"+u.Port(), 10, 16)
	if err != nil || strings.HasSuffix(u.Host, ":") {
		return v1alpha1.Grant{}, errors.New("--provider-allow-url: the port is not a number from 1 to 65535")
	}
	return v1alpha1.Grant{Scheme: u.Scheme, Host: strings.ToLower(u.Hostname()), Port: uint16(port), PathPrefix: u.EscapedPath()}, nil
}
