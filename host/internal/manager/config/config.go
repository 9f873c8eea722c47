// Package config holds this manager's flags beside those of
// k8s.io/cloud-provider, with their defaults, limits and validation.
package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the values of the flags.
type Options struct {
	// ConfigFile is the path of a HostConfiguration, or "" for one provider with
	// the defaults, from one of the two sources below.
	ConfigFile string
	// WasmEngine names the engine that runs the modules.
	WasmEngine string
	// ProviderConfigMap is the NAMESPACE/NAME of the ConfigMap with the module.
	ProviderConfigMap string
	// ProviderDir is the directory of a mounted ConfigMap with the module.
	ProviderDir string
	// StoreNamespace is the namespace of the ConfigMaps with the providers' stores.
	StoreNamespace string
	// ProbeBindAddress is the host:port of /healthz and /readyz, "0" for none.
	ProbeBindAddress string
	// CompilationCacheDir keeps compiled modules between restarts; "" keeps none.
	CompilationCacheDir string
	// CompilationCacheSize bounds the directory's size on disk.
	CompilationCacheSize resource.QuantityValue
	// PrecompiledDir has machine code from ccmctl compile; "" for none.
	PrecompiledDir string

	flags *pflag.FlagSet
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		WasmEngine:       "wazero",
		StoreNamespace:   "kube-system",
		ProbeBindAddress: "127.0.0.1:10268",

		CompilationCacheSize: resource.QuantityValue{Quantity: resource.MustParse("2Gi")},
	}
}

// AddFlags adds the flags to fs.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	fs.StringVar(&o.ConfigFile, "config", o.ConfigFile, "File with a HostConfiguration (config.wasm-ccm.dev/v1alpha1): the providers with their grants, credentials and limits. Read again when it changes. Without it there is one provider, from --provider-configmap or --provider-dir, with the default limits, no network and no credentials.")
	fs.StringVar(&o.WasmEngine, "wasm-engine", o.WasmEngine, "Engine of the modules: wazero, or wasmtime if the manager was built with the tag wasmtime.")
	fs.StringVar(&o.ProviderConfigMap, "provider-configmap", o.ProviderConfigMap, "NAMESPACE/NAME of the ConfigMap with the provider's WebAssembly module, watched through the API. Either this or --provider-dir is required.")
	fs.StringVar(&o.ProviderDir, "provider-dir", o.ProviderDir, "Directory with the provider's WebAssembly module, usually a mounted ConfigMap, watched for changes.")
	fs.StringVar(&o.StoreNamespace, "provider-store-namespace", o.StoreNamespace, "Namespace of the ConfigMaps wasm-ccm-store-PROVIDER with the providers' durable state.")
	fs.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", o.ProbeBindAddress, "Address that serves /healthz and /readyz over plain HTTP for the kubelet; 0 turns it off. /readyz fails until a provider is serving.")
	fs.StringVar(&o.CompilationCacheDir, "provider-compilation-cache-dir", o.CompilationCacheDir, "Directory that keeps compiled modules between restarts. Only the manager may write to it: it runs them as machine code. Empty: they are kept only while the manager runs.")
	fs.Var(&o.CompilationCacheSize, "provider-compilation-cache-size", "The disk space for compiled modules, and for modules of more than 16Mi, such as 512Mi: the size of the volume with --provider-compilation-cache-dir. The least recently used are removed first, the serving ones never.")
	fs.StringVar(&o.PrecompiledDir, "provider-precompiled-dir", o.PrecompiledDir, "Directory of modules that ccmctl compile has compiled for this manager, such as a mounted image volume. They run as machine code: trust it as you trust the manager's image. Modules that do not fit are compiled anew.")
}

// Validate returns every mistake in the values, each naming its flag.
func (o *Options) Validate() error {
	return errors.Join(
		o.excluded(),
		o.validateSource(),
		validateNamespace("--provider-store-namespace", o.StoreNamespace),
		o.validateProbeAddress(),
		o.validateCacheSize(),
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

// leastCacheSize has room for one small module.
const leastCacheSize = 16 << 20

func (o *Options) validateCacheSize() error {
	if size := o.CompilationCacheSize.Value(); size < leastCacheSize {
		return fmt.Errorf("--provider-compilation-cache-size %s: must be at least 16Mi", o.CompilationCacheSize.String())
	}
	return nil
}

func validateNamespace(flag, value string) error {
	if msgs := validation.IsDNS1123Label(value); len(msgs) > 0 {
		return fmt.Errorf("%s %q: must be the name of a namespace: %s", flag, value, strings.Join(msgs, "; "))
	}
	return nil
}
