package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

func newInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a module is, what it asks of the administrator, and whether the manager would take it",
		Long: "Show a module without running it: its manifest, imports and sizes, what to grant it,\n" +
			"the rights that the manager then needs in the cluster, and whether a signature lies\n" +
			"beside it. The module is checked and compiled as the manager does it, with the limits\n" +
			"of the configuration that is shown; that of a large one takes minutes. It ends with 1\n" +
			"where the manager would refuse the module.",
		Example: "  ccmctl inspect build/mycloud.wasm",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			i, unreadable := inspect(wasm)
			// Even for an unreadable module the manager's error comes first.
			if err := cmp.Or(i.verify(cmd.Context(), wasm, limitsFor(len(wasm))), unreadable); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, i.unsigned = os.Stat(signatureOf(args[0]))
			return i.write(cmd.OutOrStdout(), signatureOf(args[0]))
		},
	}
}

// inspection is the visible content of a module that does not run.
type inspection struct {
	manifest   *manifest.Manifest
	parsed     *module.Module
	digest     string
	size       int
	compressed int
	unsigned   error
	// unseen lists skipped checks.
	unseen []string
}

// inspect reads a module's sections.
func inspect(wasm []byte) (inspection, error) {
	m, err := readManifest(wasm)
	if err != nil {
		return inspection{manifest: &manifest.Manifest{}}, err
	}
	parsed, err := module.Parse(wasm)
	if err != nil {
		return inspection{manifest: m}, err
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return inspection{manifest: m}, err
	}
	compressed := encoder.EncodeAll(wasm, nil)
	return inspection{manifest: m, parsed: parsed, digest: provenance.Digest(wasm), size: len(wasm), compressed: len(compressed)}, nil
}

// signer reports whether it is a credential's signer.
func (i inspection) signer() bool { return slices.Contains(i.manifest.Ops, abi.OpSign.String()) }

// verify makes the manager's checks before a module runs, with its own Loader
// and everything granted.
func (i *inspection) verify(ctx context.Context, wasm []byte, limits v1alpha1.Limits) (err error) {
	i.unseen = []string{"the engine wasmtime", "what the module answers (ccmctl run, ccmctl conformance)"}
	loader, remove, err := i.loader(limits)
	if err != nil {
		return err
	}
	defer remove()
	if runtime.GOOS != "linux" { // the compiler cannot be bounded there
		i.unseen = append(i.unseen, "the code: ccmctl on Linux compiles it")
		_, err = loader.Job(wasm)
	} else {
		err = loader.Verify(ctx, wasm)
	}
	if err != nil {
		return fmt.Errorf("the manager would refuse it: %w", err)
	}
	return nil
}

func (i *inspection) loader(limits v1alpha1.Limits) (loader *plugin.Loader, remove func(), err error) {
	cache, remove, err := cacheDir("")
	if err != nil {
		return nil, nil, fmt.Errorf("a directory for compiled modules: %w", err)
	}
	base := plugin.Loader{NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil }}
	if base.Engine, base.Compiler, err = newEngine(cache); err != nil {
		remove()
		return nil, nil, err
	}
	if i.signer() {
		return grant.SignerLoader(base), remove, nil
	}
	c := v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{{Capabilities: abi.Capabilities(), Limits: limits}}}
	v1alpha1.SetDefaults(&c)
	return grant.Loader(base, &c.Providers[0]), remove, nil
}

func (i inspection) write(out io.Writer, signature string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	m := i.manifest
	fmt.Fprintf(w, "name:\t%s\nversion:\t%q\ndigest:\t%s\n", m.Name, m.Version, i.digest)
	fmt.Fprintf(w, "size:\t%d KiB, %d KiB compressed by zstd%s\n", i.size/1024, i.compressed/1024, tooLarge(i.compressed))
	fmt.Fprintf(w, "abi:\t%d to %d\nops:\t%s\nimports:\t%s\n", m.ABI.Min, m.ABI.Max, list(m.Ops), list(i.imports()))
	if m.Limits.MemoryBytes > 0 {
		fmt.Fprintf(w, "memory:\tsuggests at most %d MiB\n", m.Limits.MemoryBytes>>20)
	}
	signed := signature + " lies beside it; ccmctl verify checks it"
	if errors.Is(i.unsigned, os.ErrNotExist) {
		signed = "none beside it; ccmctl sign makes one"
	}
	fmt.Fprintf(w, "signature:\t%s\nnot seen:\t%s\n", signed, strings.Join(i.unseen, "; "))
	if err := w.Flush(); err != nil {
		return err
	}
	suggestion, err := i.suggestion()
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, suggestion+i.rights())
	return err
}

// maxConfigMap is the space for a module in a ConfigMap beside a configuration, in bytes.
const maxConfigMap = 1000 << 10

func tooLarge(compressed int) string {
	if compressed > maxConfigMap {
		return "; more than a ConfigMap holds: use ccmctl split or ccmctl push"
	}
	return ""
}

// imports are the names of imported functions, except WASI's and the log.
func (i inspection) imports() []string {
	var names []string
	for _, imported := range i.parsed.Imports {
		if imported.Module == abi.ImportModule {
			names = append(names, imported.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rights that the manager needs for this provider, beyond those for any.
func (i inspection) rights() string {
	var b strings.Builder
	b.WriteString("\nRights of the manager in the cluster, which the chart gives for these values:\n")
	needs := 0
	for _, need := range []struct {
		wanted bool
		words  string
	}{
		{len(i.manifest.Credentials) > 0, "get and watch the Secrets of the credentials"},
		{slices.Contains(i.manifest.Capabilities, abi.CapabilityStore), "get, create and update the ConfigMap of its store"},
		{slices.Contains(i.manifest.Capabilities, abi.CapabilityKube), "read what kube of the provider names; patch where it allows that"},
		{slices.Contains(i.manifest.Ops, abi.OpVolumeLabels.String()), "list, watch and patch PersistentVolumes"},
		{slices.Contains(i.manifest.Ops, abi.OpRouteCreate.String()), "with routes.enabled: patch the status of Nodes"},
	} {
		if need.wanted {
			needs++
			b.WriteString("  - " + need.words + "\n")
		}
	}
	if needs == 0 {
		b.WriteString("  - none but those for any provider\n")
	}
	return b.String()
}
