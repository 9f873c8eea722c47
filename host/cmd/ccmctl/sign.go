package main

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func newSign() *cobra.Command {
	var keyFile, output string
	cmd := &cobra.Command{
		Use:   "sign --key KEY FILE",
		Short: "Sign a module; the signature is of the uncompressed module",
		Long: "Sign a module: NAME.wasm, NAME.wasm.gz or NAME.wasm.zst. The signature is of the uncompressed module,\n" +
			"and the same as that of cosign sign-blob --key KEY. The key may be one of cosign, encrypted with the password in " + passwordVariable + ".",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				output = signatureOf(args[0])
			}
			module, err := readModule(args[0])
			if err != nil {
				return err
			}
			text, err := sign(keyFile, module)
			if err != nil {
				return err
			}
			if err := os.WriteFile(output, text, 0o644); err != nil {
				return fmt.Errorf("write the signature: %w: choose another file with -o", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s signed: %s\n", provenance.Digest(module), output)
			return err
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "the private key")
	cmd.Flags().StringVarP(&output, "output", "o", "", "where the signature goes (default NAME.wasm.sig beside the module)")
	_ = cmd.MarkFlagRequired("key") // fails only for an unknown flag
	return cmd
}

// sign returns the signature in base64. It refuses keys that the manager would
// not accept.
func sign(keyFile string, module []byte) ([]byte, error) {
	key, err := readPrivateKey(keyFile)
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: use ECDSA, RSA or Ed25519", keyFile, err)
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	text, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	policy, err := provenance.New(nil, []string{string(text)})
	if err != nil {
		return nil, fmt.Errorf("%s: the manager would not take its public key: %w", keyFile, err)
	}
	raw, err := signer.SignMessage(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", keyFile, err)
	}
	encoded := []byte(base64.StdEncoding.EncodeToString(raw) + "\n")
	if err := policy.Check(module, encoded); err != nil {
		return nil, fmt.Errorf("the signature made with %s does not verify: %w", keyFile, err)
	}
	return encoded, nil
}
