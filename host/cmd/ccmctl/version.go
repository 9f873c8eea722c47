package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// newVersion prints the same version as the manager's.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("ccmctl"))
			return err
		},
	}
}
