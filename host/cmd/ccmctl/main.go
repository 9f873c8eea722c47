// Command ccmctl prepares modules for the manager: it inspects and signs them,
// verifies signatures, creates ConfigMaps for kubectl, and pushes and pulls
// images; and it asks the manager of a cluster about its providers and their
// objects (ccmctl status). The other commands access no cluster, and no network
// but a registry, and the cloud of a tested provider (ccmctl conformance).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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

// complain prints an error, which may quote foreign manifests.
func complain(w io.Writer, err error) {
	const most = 8 << 10
	fmt.Fprintln(w, "error:", text.Line(err.Error(), most))
}

// compileChild is the compiling child process of the conformance kit.
func compileChild() int {
	return compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(_, cacheDir string) (engine.Engine, error) {
		return wazero.New(wazero.Options{CacheDir: cacheDir}), nil
	})
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ccmctl",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
		Short:         "Ask a cloud-controller-manager how it is; show, sign, verify, split, push, pull, compile, begin and test its modules",
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
	}
	root.AddCommand(newStatus(), newWhy(), newCheck(), newCalls(), newDashboard(), newBundle(), newRollout(), newDigest(), newGenerateKeyPair(), newSign(), newVerify(), newSplit(), newPack(), newPush(), newPull(), newCompile(), newConformance(), newRun(), newNew(), newBuild(), newManifest(), newDev(), newInspect(), newVersion())
	sayUse(root)
	return root
}

// sayUse adds the form of each command to the error about the number of its arguments.
func sayUse(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		sayUse(sub)
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
}

// displayName is the command as typed: a program named kubectl-ccm is a plugin
// of kubectl.
func displayName(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-ccm" {
		return "kubectl ccm"
	}
	return "ccmctl"
}
