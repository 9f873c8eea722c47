package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// FlagProvider is the name of the flags' provider, and in the names of its
// rollout's ConfigMaps; in --config every provider has its own name.
const FlagProvider = "provider"

// replaced are the flags that --config replaces.
var replaced = [...]string{"provider-configmap", "provider-dir"}

// excluded returns an error for --config together with a flag that it replaces:
// neither silently wins.
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
		return fmt.Errorf("--config and %s exclude each other: use the fields of the file", strings.Join(both, ", "))
	}
	return nil
}

// HostConfiguration returns the configuration of the file of --config, or of
// the flags. Options are valid (Validate).
func (o *Options) HostConfiguration() (*v1alpha1.HostConfiguration, error) {
	if o.ConfigFile == "" {
		return o.ofFlags()
	}
	data, err := readBounded(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	c, err := validation.Decode(data)
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
	p.Source.Directory = o.ProviderDir
	if o.ProviderConfigMap != "" {
		name, err := o.ConfigMap()
		if err != nil {
			return nil, err
		}
		p.Source.ConfigMap = &v1alpha1.Reference{Namespace: name.Namespace, Name: name.Name}
	}
	c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{p}}
	v1alpha1.SetDefaults(c)
	if err := validation.Validate(c).ToAggregate(); err != nil {
		return nil, fmt.Errorf("--provider-...: %w", err)
	}
	return c, nil
}
