package main

import (
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/wasm-ccm/wasm-ccm/guests"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

const home = "github.com/wasm-ccm/wasm-ccm/"

// checkSDK fills in the values that new knows itself.
func (f *newFlags) checkSDK() error {
	if f.Module == "" {
		f.Module = f.Name
		if f.upstream {
			f.Module = "guest-" + f.Name
		}
	}
	if err := module.CheckImportPath(f.Module); err != nil {
		return fmt.Errorf("--module: %w", err)
	}
	if f.Checkout != "" && !modfile.IsDirectoryPath(f.Checkout) {
		return fmt.Errorf("--wasm-ccm %q: begin it with / or ./ or ../, as go.mod wants directories", f.Checkout)
	}
	if f.SDK == "" && version.IsRelease() {
		f.SDK = version.Release()
	}
	if f.SDK == "" && f.Checkout == "" {
		return errors.New("--sdk: this ccmctl is of no release, so name the version of the SDK (--sdk v0.2.0) or a checkout (--wasm-ccm ../wasm-ccm)")
	}
	if f.SDK != "" && !semver.IsValid(f.SDK) {
		return fmt.Errorf("--sdk %q: give a version with v, as v0.2.0", f.SDK)
	}
	return nil
}

// sdkFiles are the example's files under another name.
func (f *newFlags) sdkFiles() (map[string][]byte, error) {
	files := map[string][]byte{".gitignore": []byte("/build/\n/secrets/\n*.wasm\n*.wasm.stamp\n")}
	rename := strings.NewReplacer(
		"Command example is a whole provider, for guests/README.md and as a start for\n// a new one.", "Command "+path.Base(f.Module)+" is a provider.",
		home+"guests/example", f.Module, "example://", f.Name+"://", `"example"`, `"`+f.Name+`"`, "mycloud", f.Name)
	if err := copyExample(files, "example", rename); err != nil {
		return nil, err
	}
	var err error
	files["go.mod"], err = f.sdkModule()
	return files, err
}

// plainFiles are the files of the example in C or Rust under another name.
func (f *newFlags) plainFiles() (map[string][]byte, error) {
	files := map[string][]byte{".gitignore": []byte("/build/\n")}
	return files, copyExample(files, "example-"+f.lang, strings.NewReplacer("tiny", f.Name))
}

func copyExample(files map[string][]byte, dir string, rename *strings.Replacer) error {
	return fs.WalkDir(guests.Example, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := guests.Example.ReadFile(name)
		if err != nil {
			return err
		}
		text = []byte(rename.Replace(string(text)))
		if path.Ext(name) == ".go" { // The new name may change the order of the imports.
			text, err = format.Source(text)
		}
		files[strings.TrimPrefix(name, dir+"/")] = text
		return err
	})
}

// sdkModule requires the SDK.
func (f *newFlags) sdkModule() ([]byte, error) {
	var file modfile.File
	err := errors.Join(file.AddModuleStmt(f.Module), file.AddGoStmt("1.25.0"), f.requireOwn(&file, "abi", "guests"))
	if err != nil {
		return nil, err
	}
	return file.Format()
}

// requireOwn requires this project's modules by version, or replaces them by a checkout.
func (f *newFlags) requireOwn(file *modfile.File, modules ...string) error {
	required := f.SDK
	if required == "" {
		required = "v0.0.0-00010101000000-000000000000"
	}
	var err error
	for _, own := range modules {
		err = errors.Join(err, file.AddRequire(home+own, required))
		if f.Checkout != "" {
			err = errors.Join(err, file.AddReplace(home+own, "", strings.TrimSuffix(f.Checkout, "/")+"/"+own, ""))
		}
	}
	return err
}
