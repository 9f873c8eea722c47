package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// guestFlags are the flags of commands that run a provider's module without a cluster.
type guestFlags struct {
	config, provider       string
	module, providerConfig string
	secrets                string
	signers                map[string]string
	cases                  string
	cache                  string
}

func (f *guestFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.module, "module", "", "The provider's module: NAME.wasm, .wasm.gz or .wasm.zst.")
	fs.StringVar(&f.providerConfig, "provider-config", "", "File with the provider's configuration.")
	fs.StringVar(&f.config, "config", "", "File with a HostConfiguration, as the manager reads it. None: every capability, and no URL.")
	fs.StringVar(&f.provider, "provider", "", "Which provider of --config, where there are several.")
	fs.StringVar(&f.secrets, "secrets", "", "Directory with the Secrets of the credentials, as files NAMESPACE/NAME/KEY.")
	fs.StringToStringVar(&f.signers, "signer-module", nil, "CREDENTIAL=FILE: the module of the signer of a credential. Repeatable.")
	fs.StringVar(&f.cases, "cases", "", "File with what the cloud has: nodes, Services, routes, volumes.")
	fs.StringVar(&f.cache, "compilation-cache-dir", "", "Directory that keeps the compiled module, so that the next run of a large one begins at once. None: a temporary one.")
}

func requireGuest(cmd *cobra.Command) {
	for _, name := range []string{"module", "cases"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // an unknown flag
		}
	}
}

// read reads all files.
func (f *guestFlags) read(o *conformance.Options) (err error) {
	if o.Module, err = readModule(f.module); err != nil {
		return err
	}
	if f.providerConfig != "" {
		if o.Config, err = readFile(f.providerConfig, maxSmall); err != nil {
			return err
		}
	}
	cases, err := readFile(f.cases, maxSmall)
	if err != nil {
		return err
	}
	if o.Cases, err = conformance.ParseCases(cases); err != nil {
		return fmt.Errorf("%s: %w", f.cases, err)
	}
	if o.Provider, err = f.readProvider(); err != nil {
		return err
	}
	if o.Secrets, err = readSecrets(f.secrets); err != nil {
		return err
	}
	o.Signers = map[string][]byte{}
	for name, file := range f.signers {
		if o.Signers[name], err = readModule(file); err != nil {
			return fmt.Errorf("--signer-module %s: %w", name, err)
		}
	}
	return nil
}

// readSecrets reads the Secrets of a directory; "" has none.
func readSecrets(dir string) (conformance.Secrets, error) {
	if dir == "" {
		return nil, nil
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("--secrets: %w: give a directory with a file NAMESPACE/NAME/KEY for each key of a Secret, such as kube-system/mycloud/token", err)
	}
	secrets, err := conformance.ReadSecrets(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("the Secrets of %s: %w", dir, err)
	}
	return secrets, nil
}

// readProvider returns the zero value without --config; conformance fills in
// the defaults.
func (f *guestFlags) readProvider() (v1alpha1.Provider, error) {
	if f.config == "" {
		return v1alpha1.Provider{}, nil
	}
	data, err := readFile(f.config, v1alpha1.MaxBytes)
	if err != nil {
		return v1alpha1.Provider{}, err
	}
	c, err := validation.Decode(data)
	if err != nil {
		return v1alpha1.Provider{}, fmt.Errorf("--config %s: %w", f.config, err)
	}
	var names []string
	for _, p := range c.Providers {
		if p.Name == f.provider || f.provider == "" && len(c.Providers) == 1 {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return v1alpha1.Provider{}, fmt.Errorf("--provider %q: must be one of those in %s: %s", f.provider, f.config, strings.Join(names, ", "))
}

// compile sets the manager's engine and compiler. remove deletes their files,
// unless --compilation-cache-dir keeps them.
func (f *guestFlags) compile(o *conformance.Options) (remove func(), err error) {
	cache, remove, err := cacheDir(f.cache)
	if err != nil {
		return nil, fmt.Errorf("a directory for compiled modules: %w", err)
	}
	if o.Engine, o.Compiler, err = newEngine(cache); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// cacheDir creates the directory, or a temporary one for remove to delete.
func cacheDir(path string) (dir string, remove func(), err error) {
	if path != "" {
		return path, func() {}, os.MkdirAll(path, 0o700)
	}
	dir, err = os.MkdirTemp("", "ccmctl-conformance-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// compileCommand is the hidden argument with which ccmctl starts itself to
// compile a module, within the manager's limits.
const compileCommand = "compile-module"

// newEngine returns the manager's engine and compiler.
func newEngine(cache string) (engine.Engine, plugin.Compiler, error) {
	self, err := compile.Self()
	if err != nil {
		return nil, nil, err
	}
	e := wazero.New(wazero.Options{CacheDir: cache})
	compiler, err := compile.NewParent(compile.Options{
		Command: []string{self, compileCommand}, Version: func(string) string { return version.Release() }, CacheDir: cache, Limits: compile.DefaultLimits(),
	})
	if err != nil {
		return nil, nil, err
	}
	return e, compiler.For("conformance"), nil
}
