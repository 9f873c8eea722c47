// Package gomodules gives this repository's Go modules a version. In a checkout
// a replace line leads from one to the other; in a version there is none, and
// each requires the others at the same version. Only then does `go run
// MODULE/PACKAGE@VERSION` work, which refuses replace lines.
//
// A version is the same in both of its forms, and so are their hashes: tags in
// git, and a directory that GOPROXY names.
package gomodules

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// Home is the path of the repository's own module, which all others begin with.
const Home = "github.com/wasm-ccm/wasm-ccm"

// Modules are the directories of those that have versions, each behind what it
// requires.
func Modules() []string { return []string{"abi", "guests", "guests/toolchain", "guests/upstream"} }

// Tags are the names under which the go command looks for the version of the
// modules, which lie in directories of the repository.
func Tags(version string) []string {
	var tags []string
	for _, dir := range Modules() {
		tags = append(tags, dir+"/"+version)
	}
	return tags
}

// Write changes the go.mod and go.sum files of the tree to those of the
// version, and writes its modules into the directory proxy, which GOPROXY can
// name. The tree is one of the whole repository; nothing else of it changes.
func Write(tree, proxy, version string, created time.Time) error {
	sums := map[string]string{}
	for _, dir := range Modules() {
		if err := require(filepath.Join(tree, dir), version, sums); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		m := module.Version{Path: path.Join(Home, dir), Version: version}
		lines, err := publish(tree, dir, proxy, m, created)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		sums[m.Path] = lines
	}
	return nil
}

// require drops the replace lines of our own modules, and requires their version.
func require(dir, version string, sums map[string]string) error {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	for _, replaced := range file.Replace {
		if !own(replaced.Old.Path) {
			return fmt.Errorf("go.mod replaces %s: a module with a version cannot replace another", replaced.Old.Path)
		}
		if err := file.DropReplace(replaced.Old.Path, replaced.Old.Version); err != nil {
			return err
		}
	}
	added := ""
	for _, required := range file.Require {
		if !own(required.Mod.Path) {
			continue
		}
		if sums[required.Mod.Path] == "" {
			return fmt.Errorf("go.mod requires %s, which has no version yet", required.Mod.Path)
		}
		if err := file.AddRequire(required.Mod.Path, version); err != nil {
			return err
		}
		added += sums[required.Mod.Path]
	}
	file.Cleanup()
	if text, err = file.Format(); err != nil {
		return err
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	return addSums(filepath.Join(dir, "go.sum"), added)
}

func own(path string) bool { return strings.HasPrefix(path, Home+"/") }

func addSums(name, added string) error {
	if added == "" {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, added...), 0o644)
}

// publish writes what a proxy serves of a module, and returns its lines of go.sum.
func publish(tree, dir, proxy string, m module.Version, created time.Time) (string, error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", err
	}
	goMod, err := os.ReadFile(filepath.Join(tree, dir, "go.mod"))
	if err != nil {
		return "", err
	}
	info := fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", m.Version, created.UTC().Format(time.RFC3339))
	for name, content := range map[string][]byte{m.Version + ".mod": goMod, m.Version + ".info": []byte(info), "list": []byte(m.Version + "\n")} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return "", err
		}
	}
	archive := filepath.Join(at, m.Version+".zip")
	if err := pack(tree, dir, archive, m); err != nil {
		return "", err
	}
	return hashes(m, archive, goMod)
}

// pack writes the zip, with the license, as the go command does for a module
// in a directory of a repository.
func pack(tree, dir, archive string, m module.Version) error {
	license, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err != nil {
		return err
	}
	beside := filepath.Join(tree, dir, "LICENSE")
	if _, err := os.Lstat(beside); err == nil {
		return fmt.Errorf("%s is there beside that of the repository: keep one", beside)
	}
	if err := os.WriteFile(beside, license, 0o644); err != nil {
		return err
	}
	var out bytes.Buffer
	err = zip.CreateFromDir(&out, m, filepath.Join(tree, dir))
	if gone := os.Remove(beside); err == nil {
		err = gone
	}
	if err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

func hashes(m module.Version, archive string, goMod []byte) (string, error) {
	all, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	one, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(goMod)), nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", m.Path, m.Version, all, m.Path, m.Version, one), nil
}
