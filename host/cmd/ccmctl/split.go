package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// splitFlags are the flags of split.
type splitFlags struct{ name, namespace, config, signature string }

func newSplit() *cobra.Command {
	var f splitFlags
	cmd := &cobra.Command{
		Use:   "split --name NAME --namespace NS FILE",
		Short: "Print the ConfigMaps of a module for kubectl apply --server-side -f -",
		Long: "Print the ConfigMaps of a module, of any size, for kubectl apply --server-side -f -.\n" +
			"NAME.wasm.sig beside the module goes with it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			maps, err := f.split(args[0])
			if err != nil {
				return err
			}
			return printYAML(cmd.OutOrStdout(), maps)
		},
	}
	cmd.Flags().StringVar(&f.name, "name", "", "the name of the ConfigMap that the manager watches")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "its namespace")
	cmd.Flags().StringVar(&f.config, "config", "", "the provider's configuration, for example cloud.conf")
	cmd.Flags().StringVar(&f.signature, "signature", "", "the signature, or a bundle of sigstore (default NAME.wasm.sig beside the module, if it is there)")
	_ = cmd.MarkFlagRequired("name")      // fails only for an unknown flag
	_ = cmd.MarkFlagRequired("namespace") // as above
	return cmd
}

func (f splitFlags) split(path string) ([]corev1.ConfigMap, error) {
	module, err := readModule(path)
	if err != nil {
		return nil, err
	}
	var o source.SplitOptions
	if f.config != "" {
		if o.Config, err = readFile(f.config, maxSmall); err != nil {
			return nil, err
		}
	}
	if o.Signature, err = f.readSignature(path); err != nil {
		return nil, err
	}
	maps, err := source.Split(module, f.name, f.namespace, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return maps, nil
}

// readSignature returns nil when no file is named and none is beside the module.
func (f splitFlags) readSignature(path string) ([]byte, error) {
	if f.signature != "" {
		return readFile(f.signature, maxSmall)
	}
	data, err := readFile(signatureOf(path), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func printYAML(w io.Writer, maps []corev1.ConfigMap) error {
	for _, cm := range maps {
		text, err := yaml.Marshal(cm)
		if err != nil {
			return fmt.Errorf("print ConfigMap %s: %w", cm.Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
