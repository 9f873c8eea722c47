package main

import (
	"crypto/elliptic"
	"errors"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/spf13/cobra"
)

func newGenerateKeyPair() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "generate-key-pair",
		Short: "Make a key (ECDSA P-256) to sign modules with: PREFIX.key and PREFIX.pub",
		Long: "Make a key (ECDSA P-256) to sign modules with: PREFIX.key, which is secret, and PREFIX.pub.\n" +
			"When " + passwordVariable + " is set and not empty, PREFIX.key is encrypted with it, as cosign does.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), newPassword)
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			if err := writeKeyPair(prefix, private, public); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s.key is secret: keep it where modules are signed\n%[1]s.pub goes into the manager's configuration\n", prefix)
			return err
		},
	}
	cmd.Flags().StringVar(&prefix, "output-key-prefix", "wasm-ccm", "the files are PREFIX.key and PREFIX.pub")
	return cmd
}

// writeKeyPair never leaves half of a pair behind.
func writeKeyPair(prefix string, private, public []byte) error {
	if err := createFile(prefix+".key", private, 0o600); err != nil {
		return err
	}
	if err := createFile(prefix+".pub", public, 0o644); err != nil {
		return errors.Join(err, os.Remove(prefix+".key"))
	}
	return nil
}
