package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func newDigest() *cobra.Command {
	return &cobra.Command{
		Use:   "digest FILE",
		Short: "Print the digest of a module, by which it is pinned, and what its manifest says",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			module, err := readModule(args[0])
			if err != nil {
				return err
			}
			m, err := readManifest(module)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printManifest(cmd.OutOrStdout(), provenance.Digest(module), m)
		},
	}
}

func readManifest(module []byte) (*manifest.Manifest, error) {
	section, found, err := manifest.Section(module)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("the module has no manifest: ccmctl build appends it, or ccmctl manifest")
	}
	return manifest.Parse(section)
}

func printManifest(w io.Writer, digest string, m *manifest.Manifest) error {
	_, err := fmt.Fprintf(w, "digest:        %s\nname:          %s\nversion:       %q\nabi:           %d to %d\nops:           %s\ncapabilities:  %s\n",
		digest, m.Name, m.Version, m.ABI.Min, m.ABI.Max, list(m.Ops), list(m.Capabilities))
	return err
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
