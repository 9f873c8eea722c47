// Command ccmctl prepares modules for the manager: it shows what a module is,
// signs it, verifies signatures, and makes the ConfigMaps for kubectl. It talks
// to no cluster, and to no network but for the cloud that a provider is tested
// against (ccmctl conformance).
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == compileCommand {
		os.Exit(compileChild())
	}
	if err := newCommand().Execute(); err != nil {
		complain(os.Stderr, err)
		os.Exit(1)
	}
}

// complain writes an error, which may quote manifests that others wrote.
func complain(w io.Writer, err error) {
	const most = 8 << 10
	fmt.Fprintln(w, "error:", text.Line(err.Error(), most))
}

// compileChild is what the conformance kit's compiler starts.
func compileChild() int {
	return compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(_, cacheDir string) (engine.Engine, error) {
		return wazero.New(wazero.Options{CacheDir: cacheDir}), nil
	})
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ccmctl",
		Short:         "Show, sign, verify, split and test modules of the cloud-controller-manager",
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
	}
	root.AddCommand(newDigest(), newGenerateKeyPair(), newSign(), newVerify(), newSplit(), newConformance(), newVersion())
	return root
}
