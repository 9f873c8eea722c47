package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// imageFlags describe the contents of an image.
type imageFlags struct {
	config, signature string
	platforms         []string
}

func (f *imageFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "the provider's configuration, named config.EXTENSION or cloud.conf")
	cmd.Flags().StringVar(&f.signature, "signature", "", "the signature of the module, or a bundle of sigstore (default NAME.wasm.sig beside the module, if it is there)")
	cmd.Flags().StringSliceVar(&f.platforms, "platform", []string{"linux/amd64", "linux/arm64"}, "the nodes on which a volume can be made of the image; the manager takes it on any")
}

// pack builds the image of a module, and returns the digest of the module.
func (f *imageFlags) pack(path string) (v1.ImageIndex, string, error) {
	module, err := readModule(path)
	if err != nil {
		return nil, "", err
	}
	content := registry.Content{Module: module, Files: map[string][]byte{}, Platforms: f.platforms}
	if m, err := readManifest(module); err == nil {
		content.Version = m.Version
	}
	if f.config != "" {
		if content.Files[filepath.Base(f.config)], err = readFile(f.config, maxSmall); err != nil {
			return nil, "", err
		}
	}
	signature, err := splitFlags{signature: f.signature}.readSignature(path)
	if err != nil {
		return nil, "", err
	}
	if signature != nil {
		content.Files[registry.ModuleName+signatureSuffix(signature)] = signature
	}
	if err := readable(content); err != nil {
		return nil, "", err
	}
	index, err := registry.Pack(content)
	return index, provenance.Digest(module), err
}

// readable checks the files by the manager's own rules.
func readable(c registry.Content) error {
	files := map[string][]byte{registry.ModuleName: c.Module}
	maps.Copy(files, c.Files)
	_, err := source.Join(&corev1.ConfigMap{BinaryData: files}, nil, source.Limits{MaxModule: maxModule})
	return withoutOrigin(err)
}

// signatureSuffix is the suffix by which the manager finds a signature.
func signatureSuffix(signature []byte) string {
	if strings.HasPrefix(strings.TrimSpace(string(signature)), "{") {
		return ".sigstore.json"
	}
	return ".sig"
}

// registryFlags configure the access to a registry.
type registryFlags struct{ caFile string }

func (f *registryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "certificates in PEM that verify the registry, instead of those of the system")
}

// options use the credentials of docker login.
func (f *registryFlags) options() (registry.Options, error) {
	o := registry.Options{Keys: authn.DefaultKeychain, KeysOf: "docker login", AddKeys: "docker login ", UserAgent: "ccmctl/" + version.Release(), MaxFile: maxModule}
	if f.caFile == "" {
		return o, nil
	}
	bundle, err := readFile(f.caFile, maxSmall)
	o.CABundle = string(bundle)
	return o, err
}

func newPush() *cobra.Command {
	var image imageFlags
	var reach registryFlags
	var keyFile string
	cmd := &cobra.Command{
		Use:   "push FILE HOST/PATH:TAG",
		Short: "Push a module as an image, for source.oci of the manager and for image volumes",
		Long: "Push a module as an image: NAME.wasm, NAME.wasm.gz or NAME.wasm.zst. NAME.wasm.sig beside it goes with it.\n" +
			"The manager pulls it (source.oci), and a kubelet makes a volume of it. Who pushes is who docker login says.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := registry.ParseReference(args[1])
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			index, module, err := image.pack(args[0])
			if err != nil {
				return err
			}
			options, err := reach.options()
			if err != nil {
				return err
			}
			digest, err := registry.Push(cmd.Context(), ref, index, options)
			if err != nil {
				return err
			}
			if keyFile != "" {
				if err := signImage(cmd.Context(), keyFile, ref, digest, options); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "image:   %s@%s\nmodule:  %s\n", ref.Context(), digest, module)
			return err
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "a private key to sign the image with, as cosign sign --key does; the signature goes to the registry")
	image.add(cmd)
	reach.add(cmd)
	return cmd
}

// signImage signs the digest of an image. The manifest names the module.
func signImage(ctx context.Context, keyFile string, ref registry.Reference, digest string, o registry.Options) error {
	payload, err := provenance.Payload(ref.Context().String(), digest)
	if err != nil {
		return err
	}
	signature, err := sign(keyFile, payload)
	if err != nil {
		return err
	}
	return registry.PushSignature(ctx, ref, digest, registry.Signature{Payload: payload, Base64: strings.TrimSpace(string(signature))}, o)
}

func newPull() *cobra.Command {
	var output string
	var reach registryFlags
	cmd := &cobra.Command{
		Use:   "pull HOST/PATH:TAG",
		Short: "Pull the files of a module's image, as the manager reads them",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			image, err := reach.pull(cmd, args[0])
			if err != nil {
				return err
			}
			if err := writeFiles(output, image.Files); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "image:   %s\n", image.Digest); err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(image.Files)) {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", provenance.Digest(image.Files[name]), filepath.Join(output, name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", ".", "the directory for the files")
	reach.add(cmd)
	return cmd
}

func (f *registryFlags) pull(cmd *cobra.Command, text string) (*registry.Image, error) {
	ref, err := registry.ParseReference(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	client, err := registry.New(ref, options)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	state, err := client.Resolve(cmd.Context())
	if err != nil {
		return nil, err
	}
	return client.Pull(cmd.Context(), state)
}

// writeFiles writes new files, and fails if one exists; their names have no slash.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%w: choose another directory with -o", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: remove it, or choose another directory with -o", filepath.Join(dir, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := createFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

func newPack() *cobra.Command {
	var image imageFlags
	var output, reference string
	cmd := &cobra.Command{
		Use:   "pack FILE --name HOST/PATH:TAG -o FILE.tar",
		Short: "Make the image that push would push, as an OCI archive for ctr images import",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := registry.ParseReference(reference)
			if err != nil {
				return fmt.Errorf("--name %s: %w", reference, err)
			}
			index, module, err := image.pack(args[0])
			if err != nil {
				return err
			}
			archive, err := registry.Archive(ref, index)
			if err != nil {
				return err
			}
			if err := createFile(output, archive, 0o644); err != nil {
				return err
			}
			digest, err := index.Digest()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "image:   %s@%s\nmodule:  %s\n%s\n", ref.Context(), digest, module, output)
			return err
		},
	}
	image.add(cmd)
	cmd.Flags().StringVar(&reference, "name", "", "the name of the image, with its tag")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the archive, which must not exist yet")
	_ = cmd.MarkFlagRequired("name")   // fails only for an unknown flag
	_ = cmd.MarkFlagRequired("output") // as above
	return cmd
}
