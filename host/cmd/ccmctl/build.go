package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/guests/build"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

func newBuild() *cobra.Command {
	var o build.Options
	cmd := &cobra.Command{
		Use:   "build DIRECTORY",
		Short: "Build the module of a guest in Go: compile it and append its manifest",
		Long: "Build the module of a guest in Go: compile the main package of the directory by\n" +
			"TinyGo, or by stock Go where there is none, and append its manifest.json.\n" +
			"go run github.com/wasm-ccm/wasm-ccm/guests/cmd/ccm-build@VERSION does the same.",
		Example: "  ccmctl build . -o build/mycloud.wasm\n" +
			"  ccmctl build . -o build/mycloud-debug.wasm --debug",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir, o.Log = filepath.Clean(args[0]), cmd.ErrOrStderr()
			result, err := buildGuest(cmd.Context(), o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), result)
			return err
		},
	}
	addBuildFlags(cmd, &o)
	return cmd
}

func addBuildFlags(cmd *cobra.Command, o *build.Options) {
	fs := cmd.Flags()
	fs.StringVarP(&o.Out, "output", "o", "", "the file to write (default NAME.wasm, NAME is the manifest's)")
	fs.StringVar(&o.Compiler, "compiler", "", "tinygo, tinygo-build or go (default the first of these that is there)")
	fs.StringVar(&o.Version, "set-version", "", "takes the place of the manifest's version")
	fs.StringVar(&o.Tags, "tags", "", "Go's build tags, a comma between them")
	fs.BoolVar(&o.Debug, "debug", false, "a build whose crashes tell the line, by stock Go")
	fs.StringVar(&o.Toolchain, "toolchain", "", "directory or version of the module of tinygo-build (default the version of ccmctl, or the checkout of the SDK)")
	fs.StringVar(&o.Tools, "tools", "", "directory that keeps tinygo-build (default the user's cache)")
	fs.BoolVar(&o.Install, "install", false, "install Debian's LLVM 19 (850 MB) by apt-get where it is missing")
}

// buildGuest uses this release's compiler unless another one is named.
func buildGuest(ctx context.Context, o build.Options) (build.Result, error) {
	if o.Toolchain == "" && version.IsRelease() {
		o.Toolchain = version.Release()
	}
	return build.Build(ctx, o)
}
