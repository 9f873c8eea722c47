package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"
)

//go:embed upstream/*.tmpl
var upstreamFiles embed.FS

// newFlags are the flags of new. The templates read them.
type newFlags struct {
	upstream bool
	lang     string
	// Name is the guest's and the provider's, Package the one that registers it.
	Name, Package string
	// Require is MODULE@VERSION of the package.
	Require string
	// Host is the name of the cloud's API.
	Host string
	// Checkout is the path to wasm-ccm for go.mod and make.
	Checkout string
	// Version of the guest.
	Version string
	// Module is the path of the guest's Go module, SDK the version of this project's module.
	Module, SDK string
}

func newNew() *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use:   "new --name NAME DIRECTORY",
		Short: "Write the repository of a new provider, complete and tested",
		Long: "Write the repository of a new provider, which is complete: instances and load\n" +
			"balancers of an invented cloud, tests, and that cloud as a program. Change it to\n" +
			"yours step by step: guests/TUTORIAL.md of wasm-ccm.\n\n" +
			"With --upstream it is the repository of a guest that serves an unmodified\n" +
			"provider of cloudprovider.Interface: its main package, manifest, an example of\n" +
			"grants, a Makefile and a test against the conformance kit.\n\n" +
			"With --lang c or --lang rust it is a provider of two invented machines and their\n" +
			"load balancers in that language without a library, which begins with the bytes of\n" +
			"the contract (abi/SPEC.md): for authors without Go.\n\n" +
			"The directory may exist, but none of these files.",
		Example: "  ccmctl new --name mycloud --module example.com/mycloud mycloud\n" +
			"  ccmctl new --lang rust --name mycloud mycloud\n" +
			"  ccmctl new --upstream --name hcloud --host api.hetzner.cloud \\\n" +
			"    --package github.com/hetznercloud/hcloud-cloud-controller-manager/hcloud \\\n" +
			"    --require github.com/hetznercloud/hcloud-cloud-controller-manager@v1.30.1 \\\n" +
			"    guest-hcloud",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.write(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), f.next(), args[0])
			return err
		},
	}
	cmd.Flags().BoolVar(&f.upstream, "upstream", false, "a guest for an unmodified provider of cloudprovider.Interface")
	cmd.Flags().StringVar(&f.lang, "lang", langGo, strings.Join(langs(), ", "))
	cmd.Flags().StringVar(&f.Name, "name", "", "the provider's name, a DNS label; with --upstream the one under which the package registers it")
	cmd.Flags().StringVar(&f.Package, "package", "", "with --upstream: the package that registers the provider")
	cmd.Flags().StringVar(&f.Require, "require", "", "with --upstream: the module that has the package, MODULE@VERSION")
	cmd.Flags().StringVar(&f.Host, "host", "api.example.com", "with --upstream: the cloud's API, for the example of a grant")
	cmd.Flags().StringVar(&f.Checkout, "wasm-ccm", "", "a checkout of wasm-ccm, seen from the directory: go.mod leads there instead of to a version")
	cmd.Flags().StringVar(&f.Version, "version", "0.1.0", "the guest's version")
	cmd.Flags().StringVar(&f.Module, "module", "", "the path of the new Go module (default the name; with --upstream guest-NAME)")
	cmd.Flags().StringVar(&f.SDK, "sdk", "", "the version of the SDK (default that of ccmctl)")
	// Both fail only for an unknown flag.
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(langs(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var newVersionText = regexp.MustCompile(`^[0-9A-Za-z.+-]{1,64}$`)

// langGo is the language with an SDK.
const langGo = "go"

// compilers are what Debian has for each other language.
var compilers = map[string]string{
	"c":    "clang-19 and lld-19",
	"rust": "rustc and libstd-rust-dev-wasm32",
}

func langs() []string { return append([]string{langGo}, slices.Sorted(maps.Keys(compilers))...) }

func (f *newFlags) next() string {
	switch {
	case f.lang != langGo:
		return "%s is written: run make and make test there (Debian's " + compilers[f.lang] + "), then make its cloud yours\n"
	case f.upstream:
		return "%s is written: edit manifest.json (take out the ops that the provider does not have), host.yaml, config.yaml and cases.yaml there, then run make and make test\n"
	}
	return "%s is written: run go mod tidy, go test ./... and ccmctl build . there, then make its cloud yours\n"
}

func (f *newFlags) check() error {
	if errs := validation.IsDNS1123Label(f.Name); len(errs) > 0 {
		return fmt.Errorf("--name %q: %s", f.Name, strings.Join(errs, "; "))
	}
	switch {
	case !slices.Contains(langs(), f.lang):
		return fmt.Errorf("--lang %q: give one of %s", f.lang, strings.Join(langs(), ", "))
	case f.lang != langGo && (f.upstream || f.Module != "" || f.SDK != "" || f.Checkout != ""):
		return fmt.Errorf("--lang %s: leave out --upstream, --module, --sdk and --wasm-ccm, which are for Go", f.lang)
	}
	if !f.upstream && (f.Package != "" || f.Require != "") {
		return errors.New("--package and --require are for a provider of cloudprovider.Interface: add --upstream, or leave them out")
	}
	if f.lang != langGo {
		return nil
	}
	if err := f.checkSDK(); err != nil || !f.upstream {
		return err
	}
	if err := module.CheckImportPath(f.Package); err != nil {
		return fmt.Errorf("--package: %w", err)
	}
	path, version, _ := strings.Cut(f.Require, "@")
	if err := module.Check(path, version); err != nil {
		return fmt.Errorf("--require %q: give MODULE@VERSION: %w", f.Require, err)
	}
	if f.Package != path && !strings.HasPrefix(f.Package, path+"/") {
		return fmt.Errorf("--package %s is not in the module %s of --require", f.Package, path)
	}
	if errs := validation.IsDNS1123Subdomain(f.Host); len(errs) > 0 {
		return fmt.Errorf("--host %q: give a DNS name: %s", f.Host, strings.Join(errs, "; "))
	}
	if !newVersionText.MatchString(f.Version) {
		return fmt.Errorf("--version %q: give letters, digits, dots, + and -, at most 64", f.Version)
	}
	return nil
}

// write renders all texts before it creates the directory, and overwrites nothing.
func (f *newFlags) write(dir string) error {
	if err := f.check(); err != nil {
		return err
	}
	files, err := f.files()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for name := range files {
		path := filepath.Join(dir, name)
		_, err := os.Lstat(path)
		if err == nil {
			return fmt.Errorf("%s is there already: give a directory without it", path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (f *newFlags) files() (map[string][]byte, error) {
	switch {
	case f.lang != langGo:
		return f.plainFiles()
	case !f.upstream:
		return f.sdkFiles()
	}
	goMod, err := f.goMod()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"go.mod": goMod}
	templates, err := template.ParseFS(upstreamFiles, "upstream/*.tmpl")
	if err != nil {
		return nil, err
	}
	for _, t := range templates.Templates() {
		var text bytes.Buffer
		if err := t.Execute(&text, f); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(t.Name(), ".tmpl")
		if name == "gitignore" {
			name = ".gitignore"
		}
		files[name] = text.Bytes()
	}
	return files, nil
}

// goMod requires the provider and the adapter, as sdkModule requires the SDK.
func (f *newFlags) goMod() ([]byte, error) {
	var file modfile.File
	path, version, _ := strings.Cut(f.Require, "@")
	err := errors.Join(file.AddModuleStmt(f.Module), file.AddGoStmt("1.26.0"), file.AddRequire(path, version), f.requireOwn(&file, "abi", "guests", "guests/upstream"))
	if err != nil {
		return nil, err
	}
	return file.Format()
}
