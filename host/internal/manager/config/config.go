// Package config holds the flags that this manager adds to those of
// k8s.io/cloud-provider, with their defaults, limits and validation.
//
// It imports its own sub-packages and nothing else of this project.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Bounds of what the flags accept.
const (
	maxInstances    = 256
	maxModuleBytes  = 256 << 20
	minOpTimeout    = 100 * time.Millisecond
	maxOpTimeout    = time.Hour
	minMemoryBytes  = 1 << 20
	maxMemoryBytes  = 4 << 30
	maxCallsPerInst = 1 << 30
)

// Options are the values of the flags.
type Options struct {
	// ConfigFile is the path of a HostConfiguration, or "" when the flags below
	// say it all.
	ConfigFile string
	// WasmEngine names the engine that runs the modules.
	WasmEngine string
	// ProviderConfigMap is the NAMESPACE/NAME of the ConfigMap with the module.
	ProviderConfigMap string
	// ProviderDir is the directory of a mounted ConfigMap with the module.
	ProviderDir string
	// StoreNamespace is where the providers' stores are kept as ConfigMaps.
	StoreNamespace string
	// ProbeBindAddress is the host:port of /healthz and /readyz, "0" for none.
	ProbeBindAddress string
	// CompilationCacheDir keeps compiled modules between restarts; "" does not.
	CompilationCacheDir string
	// OpTimeout bounds one op.
	OpTimeout time.Duration
	// MaxInstances bounds the instances of one generation.
	MaxInstances int
	// MaxCallsPerInstance is after how many ops an instance is replaced.
	MaxCallsPerInstance int
	// MaxMemoryBytes bounds the linear memory of one instance.
	MaxMemoryBytes int64
	// MaxModuleBytes bounds a module after decompression.
	MaxModuleBytes int64
	// AllowedURLs are the URL prefixes that the provider may send HTTP
	// requests to; none takes the capability away.
	AllowedURLs []string
	// AllowedCIDRs are addresses that the hosts of AllowedURLs may resolve to
	// although they are private, link-local or loopback.
	AllowedCIDRs []string

	flags *pflag.FlagSet
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		WasmEngine:          "wazero",
		StoreNamespace:      "kube-system",
		ProbeBindAddress:    "127.0.0.1:10268",
		OpTimeout:           30 * time.Second,
		MaxInstances:        8,
		MaxCallsPerInstance: 10_000,
		MaxMemoryBytes:      64 << 20,
		MaxModuleBytes:      64 << 20,
	}
}

// AddFlags adds the flags to fs.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	fs.StringVar(&o.ConfigFile, "config", o.ConfigFile, "File with a HostConfiguration (config.wasm-ccm.dev/v1alpha1): the provider, what it may reach, its credentials and limits. Read again when it changes. It stands for the flags --provider-configmap, --provider-dir, --provider-op-timeout, --provider-max-* and --provider-allow-*.")
	fs.StringVar(&o.WasmEngine, "wasm-engine", o.WasmEngine, "What runs the modules: wazero, or wasmtime where the manager was built with the tag wasmtime.")
	fs.StringVar(&o.ProviderConfigMap, "provider-configmap", o.ProviderConfigMap, "NAMESPACE/NAME of the ConfigMap that holds the provider's WebAssembly module, watched through the API. Either this or --provider-dir is required.")
	fs.StringVar(&o.ProviderDir, "provider-dir", o.ProviderDir, "Directory that holds the provider's WebAssembly module, usually a mounted ConfigMap, watched for changes.")
	fs.StringVar(&o.StoreNamespace, "provider-store-namespace", o.StoreNamespace, "Namespace of the ConfigMaps wasm-ccm-store-PROVIDER in which providers keep durable state.")
	fs.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", o.ProbeBindAddress, "Address that serves /healthz and /readyz over plain HTTP for the kubelet; 0 turns it off. /readyz fails until a provider is serving.")
	fs.StringVar(&o.CompilationCacheDir, "provider-compilation-cache-dir", o.CompilationCacheDir, "Directory that keeps compiled modules between restarts. It must be writable by the manager only: what lies there is run as machine code. Empty keeps them in memory only.")
	fs.DurationVar(&o.OpTimeout, "provider-op-timeout", o.OpTimeout, "Time after which one request to the provider is ended.")
	fs.IntVar(&o.MaxInstances, "provider-max-instances", o.MaxInstances, "How many instances of the module may run at the same time; further requests wait.")
	fs.IntVar(&o.MaxCallsPerInstance, "provider-max-calls-per-instance", o.MaxCallsPerInstance, "After how many requests an instance is replaced by a fresh one.")
	fs.Int64Var(&o.MaxMemoryBytes, "provider-max-memory-bytes", o.MaxMemoryBytes, "Largest linear memory of one instance.")
	fs.Int64Var(&o.MaxModuleBytes, "provider-max-module-bytes", o.MaxModuleBytes, "Largest module after decompression.")
	fs.StringSliceVar(&o.AllowedURLs, "provider-allow-url", o.AllowedURLs, "URL prefix, as https://HOST[:PORT][/PATH/], that the provider may send HTTP requests to. Repeatable; with none the provider has no network.")
	fs.StringSliceVar(&o.AllowedCIDRs, "provider-allow-cidr", o.AllowedCIDRs, "Addresses that a host of --provider-allow-url may resolve to although they are loopback, link-local or private. Repeatable.")
}

// Validate returns every mistake in the values, each naming its flag.
func (o *Options) Validate() error {
	return errors.Join(
		o.excluded(),
		o.validateSource(),
		validateNamespace("--provider-store-namespace", o.StoreNamespace),
		o.validateProbeAddress(),
		between("--provider-op-timeout", o.OpTimeout, minOpTimeout, maxOpTimeout),
		between("--provider-max-instances", o.MaxInstances, 1, maxInstances),
		between("--provider-max-calls-per-instance", o.MaxCallsPerInstance, 1, maxCallsPerInst),
		between("--provider-max-memory-bytes", o.MaxMemoryBytes, minMemoryBytes, maxMemoryBytes),
		between("--provider-max-module-bytes", o.MaxModuleBytes, 1, maxModuleBytes),
		o.validateCIDRs(),
	)
}

// ConfigMap returns the parsed --provider-configmap.
func (o *Options) ConfigMap() (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(o.ProviderConfigMap, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("--provider-configmap %q: must be NAMESPACE/NAME, e.g. kube-system/cloud-provider", o.ProviderConfigMap)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// CIDRs returns the parsed --provider-allow-cidr.
func (o *Options) CIDRs() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, cidr := range o.AllowedCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("--provider-allow-cidr %q: must be a CIDR, e.g. 10.0.0.0/8: %w", cidr, err)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

func (o *Options) validateSource() error {
	switch {
	case o.ConfigFile != "":
		return nil
	case o.ProviderConfigMap == "" && o.ProviderDir == "":
		return errors.New("no provider: give --provider-configmap=NAMESPACE/NAME or --provider-dir=DIR, or --config=FILE")
	case o.ProviderConfigMap != "" && o.ProviderDir != "":
		return errors.New("--provider-configmap and --provider-dir exclude each other: give one of them")
	case o.ProviderConfigMap != "":
		_, err := o.ConfigMap()
		return err
	}
	info, err := os.Stat(o.ProviderDir)
	if err != nil {
		return fmt.Errorf("--provider-dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--provider-dir %q: is not a directory; give the directory that holds the module", o.ProviderDir)
	}
	return nil
}

func (o *Options) validateProbeAddress() error {
	if o.ProbeBindAddress == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.ProbeBindAddress); err != nil {
		return fmt.Errorf("--health-probe-bind-address %q: must be HOST:PORT, or 0 for none: %w", o.ProbeBindAddress, err)
	}
	return nil
}

func (o *Options) validateCIDRs() error {
	_, err := o.CIDRs()
	return err
}

func validateNamespace(flag, value string) error {
	if msgs := validation.IsDNS1123Label(value); len(msgs) > 0 {
		return fmt.Errorf("%s %q: must be the name of a namespace: %s", flag, value, strings.Join(msgs, "; "))
	}
	return nil
}

func between[T int | int64 | time.Duration](flag string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s: %v is out of range, must be from %v to %v", flag, value, low, high)
	}
	return nil
}
