package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func newVerify() *cobra.Command {
	var keyFile, signatureFile string
	cmd := &cobra.Command{
		Use:   "verify --key PUB FILE",
		Short: "Verify a module's signature as the manager does",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if signatureFile == "" {
				signatureFile = signatureOf(args[0])
			}
			digest, err := verify(keyFile, signatureFile, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s verified\n", digest)
			return err
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "the public key")
	cmd.Flags().StringVar(&signatureFile, "signature", "", "the signature, or a bundle of sigstore (default NAME.wasm.sig beside the module)")
	_ = cmd.MarkFlagRequired("key") // fails only for an unknown flag
	return cmd
}

func verify(keyFile, signatureFile, moduleFile string) (digest string, err error) {
	key, err := readFile(keyFile, maxSmall)
	if err != nil {
		return "", err
	}
	policy, err := provenance.New(nil, []string{string(key)})
	if err != nil {
		return "", fmt.Errorf("%s: %w", keyFile, err)
	}
	module, err := readModule(moduleFile)
	if err != nil {
		return "", err
	}
	signature, err := readFile(signatureFile, maxSmall)
	if err != nil {
		return "", err
	}
	if err := policy.Check(module, signature); err != nil {
		return "", fmt.Errorf("%s: %w", signatureFile, err)
	}
	return provenance.Digest(module), nil
}
