package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

func newInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a module is, what it asks of the administrator, and whether the manager would take it",
		Long: "Show a module without running it: its manifest, imports and sizes, what to grant it,\n" +
			"the rights that the manager then needs in the cluster, and whether a signature lies\n" +
			"beside it. It ends with 1 where the manager would refuse the module.",
		Example: "  ccmctl inspect build/mycloud.wasm",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			i, err := inspect(wasm)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, i.unsigned = os.Stat(signatureOf(args[0]))
			return i.write(cmd.OutOrStdout(), signatureOf(args[0]))
		},
	}
}

// inspection is what can be seen of a module without running it.
type inspection struct {
	manifest   *manifest.Manifest
	parsed     *module.Module
	digest     string
	size       int
	compressed int
	unsigned   error
}

// inspect refuses what the manager would refuse whatever is granted.
func inspect(wasm []byte) (inspection, error) {
	m, err := readManifest(wasm)
	if err != nil {
		return inspection{}, err
	}
	policy := module.Policy{Capabilities: abi.Capabilities(), Signer: slices.Contains(m.Ops, abi.OpSign.String())}
	parsed, m, err := module.Check(wasm, policy)
	if err != nil {
		return inspection{}, fmt.Errorf("the manager would refuse it: %w", err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return inspection{}, err
	}
	compressed := encoder.EncodeAll(wasm, nil)
	return inspection{manifest: m, parsed: parsed, digest: provenance.Digest(wasm), size: len(wasm), compressed: len(compressed)}, nil
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
	fmt.Fprintf(w, "signature:\t%s\n", signed)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, i.grants()+i.rights())
	return err
}

// maxConfigMap is what fits into one ConfigMap beside a configuration, in bytes.
const maxConfigMap = 1000 << 10

func tooLarge(compressed int) string {
	if compressed > maxConfigMap {
		return "; more than a ConfigMap holds: use ccmctl split or ccmctl push"
	}
	return ""
}

// imports are names of functions, without those of WASI and of the log.
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

// grants is a beginning of the HostConfiguration, in its own words.
func (i inspection) grants() string {
	m := i.manifest
	var b strings.Builder
	if slices.Contains(m.Ops, abi.OpSign.String()) {
		return "\nA signer: it is named by a credential's signer, and is granted nothing.\n"
	}
	fmt.Fprintf(&b, "\nIn the HostConfiguration:\n\n  providers:\n  - name: %s\n    source: %s\n    capabilities: [%s]\n", m.Name, i.source(), strings.Join(m.Capabilities, ", "))
	if slices.Contains(m.Capabilities, abi.CapabilityHTTP) {
		b.WriteString("    grants:" + beginnings(m) + "\n")
	}
	if len(m.Credentials) > 0 {
		b.WriteString("    credentials:\n")
	}
	for _, name := range m.Credentials {
		fmt.Fprintf(&b, "    - {name: %s, secret: {namespace: kube-system, name: %s}, bearer: {}}  # or another kind\n", text.Line(name, 64), m.Name)
	}
	if slices.Contains(m.Capabilities, abi.CapabilityKube) {
		b.WriteString("    kube: {nodes: true}  # the objects of the cluster that it reads\n")
	}
	if i.size > largeModule {
		b.WriteString("    limits: {memory: 128Mi, module: 128Mi, compile: {memory: 3Gi, cpu: 10m, wall: 20m, output: 512Mi}}  # the module is large\n")
	}
	return b.String()
}

// largeModule is from where on compiling a module needs more than a provider
// may have by default.
const largeModule = 16 << 20

// source is where a module of this size can be.
func (i inspection) source() string {
	if i.compressed > maxConfigMap {
		return fmt.Sprintf("{oci: {reference: registry.example.com/providers/%s:v1}}  # ccmctl push", i.manifest.Name)
	}
	return fmt.Sprintf("{configMap: {namespace: kube-system, name: %s}}", i.manifest.Name)
}

// beginnings are the grants that the manifest asks for.
func beginnings(m *manifest.Manifest) string {
	if len(m.Hosts) == 0 {
		return " []  # the manifest names no hosts: which does its configuration name?"
	}
	var b strings.Builder
	for _, host := range m.Hosts {
		fmt.Fprintf(&b, "\n    - %s", grantOf(text.Line(host, 256), m.Credentials))
	}
	return b.String()
}

func grantOf(address string, credentials []string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, path, _ := strings.Cut(rest, "/")
	name, port, hasPort := strings.Cut(host, ":")
	fields := []string{"host: " + name, "pathPrefix: /" + path}
	if scheme != "https" {
		fields = append([]string{"scheme: " + scheme}, fields...)
	}
	if hasPort {
		fields = append(fields, "port: "+port)
	}
	if len(credentials) > 0 {
		fields = append(fields, "credentials: ["+strings.Join(credentials, ", ")+"]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// rights are what the manager needs beyond what it needs for any provider.
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
