package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/guests/build"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

func newManifest() *cobra.Command {
	var version, output string
	cmd := &cobra.Command{
		Use:   "manifest FILE.wasm MANIFEST.json",
		Short: "Put a manifest into a module of any compiler, in place of a former one",
		Long: "Put a manifest into a module that ccmctl build did not make, in place of a former\n" +
			"one: abi/SPEC.md, section 9. Imports, exports and manifest are checked as the\n" +
			"manager checks them, and nothing is written where it would refuse them.",
		Example: "  ccmctl manifest guest.wasm manifest.json\n" +
			"  ccmctl manifest target/wasm32-unknown-unknown/release/mycloud.wasm manifest.json -o mycloud.wasm",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				output = args[0]
			}
			wasm, m, err := putManifest(args[0], args[1], version)
			if err != nil {
				return err
			}
			if err := replaceFile(output, wasm); err != nil {
				return err
			}
			return printManifest(cmd.OutOrStdout(), provenance.Digest(wasm), m)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write (default FILE.wasm itself)")
	cmd.Flags().StringVar(&version, "set-version", "", "takes the place of the manifest's version")
	return cmd
}

// putManifest returns the module of a file with the manifest of another.
func putManifest(wasmFile, manifestFile, version string) ([]byte, *manifest.Manifest, error) {
	wasm, err := readFile(wasmFile, maxModule)
	if err != nil {
		return nil, nil, err
	}
	text, err := build.ReadManifest(manifestFile, version)
	if err != nil {
		return nil, nil, err
	}
	if wasm, err = manifest.Append(wasm, text); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", wasmFile, err)
	}
	m, err := readManifest(wasm)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", wasmFile, err)
	}
	policy := module.Policy{Capabilities: abi.Capabilities(), Signer: slices.Contains(m.Ops, abi.OpSign.String())}
	if _, _, err := module.Check(wasm, policy); err != nil {
		return nil, nil, fmt.Errorf("%s with %s: the manager would refuse it: %w", wasmFile, manifestFile, err)
	}
	return wasm, m, nil
}

// replaceFile writes all of a file, or leaves the former one, whose mode stays. It
// writes through a link. A new file gets its mode from the umask.
func replaceFile(path string, data []byte) error {
	target, mode, err := replaced(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if target == "" {
		return createFile(path, data, 0o666)
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".ccmctl-*")
	if err != nil {
		return fmt.Errorf("%w: choose a directory that can be written", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), target)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replaced is the file that a path leads to, "" if there is none, and its mode.
func replaced(path string) (string, os.FileMode, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		if _, absent := os.Lstat(path); errors.Is(absent, os.ErrNotExist) {
			return "", 0, nil
		}
		return "", 0, fmt.Errorf("%w: remove the link, or name another file", err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, errors.New("it is not a regular file: name another one")
	}
	return target, info.Mode().Perm(), nil
}
