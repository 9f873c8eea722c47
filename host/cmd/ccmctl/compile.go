package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// compileFlags are the flags of compile.
type compileFlags struct{ manager, engine, config, provider, output string }

func newCompile() *cobra.Command {
	var f compileFlags
	cmd := &cobra.Command{
		Use:   "compile --manager BINARY [--config FILE --provider NAME] [--engine NAME] -o DIR FILE",
		Short: "Compile a module for the manager's --provider-precompiled-dir",
		Long: "Compile a module into a directory for --provider-precompiled-dir of the manager, so that\n" +
			"a new node need not. The manager's own binary compiles, on a machine whose processor has\n" +
			"the features of the nodes' processors, with the limits of the provider in the\n" +
			"HostConfiguration. Where anything of that differs, the manager compiles the module anew.\n" +
			"It runs what lies in the directory as its own code: keep it as the manager's image is kept.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.compile(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is compiled in %s\n", args[0], f.output)
			return err
		},
	}
	cmd.Flags().StringVar(&f.manager, "manager", "", "the binary of the manager that will run the module")
	cmd.Flags().StringVar(&f.engine, "engine", "", "wazero or wasmtime (default: that of the provider, else wazero)")
	cmd.Flags().StringVar(&f.config, "config", "", "a HostConfiguration with the provider's limits (default: those of a provider that sets none)")
	cmd.Flags().StringVar(&f.provider, "provider", "", "the provider's name in --config (default: the only one)")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the directory, which may have other modules")
	_ = cmd.MarkFlagRequired("manager") // fails only for an unknown flag
	_ = cmd.MarkFlagRequired("output")  // as above
	return cmd
}

func (f *compileFlags) compile(ctx context.Context, path string) error {
	module, err := readModule(path)
	if err != nil {
		return err
	}
	p, err := f.readLimits()
	if err != nil {
		return err
	}
	job, err := grant.Loader(plugin.Loader{}, p).Job(module)
	if err != nil {
		return err
	}
	job.Engine = cmp.Or(f.engine, p.Engine, engine.Default)
	work, err := os.MkdirTemp("", "ccmctl-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	compiler, err := f.compiler(filepath.Join(work, "cache"))
	if err != nil {
		return err
	}
	return compiler.Export(ctx, job, f.output)
}

// compiler compiles with the manager's binary.
func (f *compileFlags) compiler(cache string) (*compile.Owner, error) {
	binary, err := filepath.Abs(f.manager)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("--manager: %w; give the cloud-controller-manager's binary, as its image has it", err)
	}
	parent, err := compile.NewParent(compile.Options{
		Command: []string{binary, compileCommand}, CacheDir: cache, Limits: compile.DefaultLimits(),
		Version: func(name string) string { return compile.VersionOf(info, name) },
	})
	if err != nil {
		return nil, err
	}
	return parent.For("ccmctl"), nil
}

// readLimits returns the provider with the limits.
func (f *compileFlags) readLimits() (*v1alpha1.Provider, error) {
	if f.config == "" {
		return unconfigured(), nil
	}
	data, err := readFile(f.config, maxSmall)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	c, err := validation.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", f.config, err)
	}
	if f.provider == "" && len(c.Providers) == 1 {
		return &c.Providers[0], nil
	}
	at := slices.IndexFunc(c.Providers, func(p v1alpha1.Provider) bool { return p.Name == f.provider })
	if at < 0 {
		return nil, fmt.Errorf("--provider: %s has no provider %q: name one of its providers", f.config, f.provider)
	}
	return &c.Providers[at], nil
}

// unconfigured has the limits of a provider that sets none, every capability,
// and the compiler's largest bounds: no manager waits for it here.
func unconfigured() *v1alpha1.Provider {
	c := v1alpha1.HostConfiguration{Providers: make([]v1alpha1.Provider, 1)}
	v1alpha1.SetDefaults(&c)
	p := &c.Providers[0]
	p.Capabilities = abi.Capabilities()
	p.Limits.Compile.Memory, p.Limits.Compile.Output = *resource.NewQuantity(4<<30, resource.BinarySI), *resource.NewQuantity(1<<30, resource.BinarySI)
	p.Limits.Compile.CPU.Duration, p.Limits.Compile.Wall.Duration = time.Hour, time.Hour
	return p
}
