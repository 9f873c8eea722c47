package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of precompiled modules, beside the limits of the job.
const (
	maxPrecompiledBytes = 64 << 10
	maxPrecompiledFiles = 8
)

// precompiled describes the machine code of one module for one engine; its file lies beside
// it. The comparison is exact: machine code is used for its own purpose, or not at all.
type precompiled struct {
	// Module is the SHA-256 of the offered module, Engine its engine.
	Module string `json:"module"`
	Engine string `json:"engine"`
	// Manager is the SHA-256 of the binary that metered and compiled.
	Manager string `json:"manager"`
	// Version of the engine and of Go, Arch and Processor of the machine.
	Version   string `json:"version"`
	Arch      string `json:"arch"`
	Processor string `json:"processor"`
	// Meter has the provider's limits.
	Meter meter.Options `json:"meter"`
	// Key is that of the machine code, and Files are by their path in a cache.
	Key   string `json:"key"`
	Files record `json:"files"`
}

// precompiledName is unique for a module and an engine.
func precompiledName(j Job) string { return j.Digest + "." + j.Engine + ".json" }

// describe is the description of a module's machine code on this machine, without its files.
func (p *Parent) describe(j Job) (precompiled, error) {
	manager, err := p.binary()
	return precompiled{
		Module: j.Digest, Engine: j.Engine,
		Manager: manager, Version: p.options.Version(j.Engine), Arch: runtime.GOARCH,
		Processor: hex.EncodeToString(processor()), Meter: j.Meter,
	}, err
}

// differs names the fields that differ; "" for none.
func (made precompiled) differs(here precompiled) string {
	switch {
	case made.Module != here.Module || made.Engine != here.Engine:
		return "it is of another module or engine"
	case made.Arch != here.Arch || made.Processor != here.Processor:
		return "it was compiled on a machine whose processor has other features"
	case made.Version != here.Version:
		return "it is of another version of the engine: " + text.Quote(made.Version)
	case made.Manager != here.Manager:
		return "another binary of the manager has compiled it"
	case made.Meter != here.Meter:
		return "it was compiled with other limits, such as limits.memory"
	}
	return ""
}

// Export prepares a module, and writes its machine code to a directory, for a Parent with
// that directory as Precompiled. The directory is created, and readable for others.
func (o *Owner) Export(ctx context.Context, j Job, dir string) error {
	p := o.parent
	hold := &Hold{}
	defer hold.Release()
	key, err := o.prepare(ctx, j, hold)
	if err != nil {
		return err
	}
	made, err := p.describe(j)
	if err != nil {
		return err
	}
	made.Key = key
	made.Files = p.cache.files(made.Key + recordSuffix)
	for name := range made.Files {
		if err := export(filepath.Join(p.options.CacheDir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	// The last write: a partial file counts as none.
	return os.WriteFile(filepath.Join(dir, precompiledName(j)), append(data, '\n'), 0o644)
}

// export copies a file and makes it readable for others.
func export(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// adopt takes over a module's precompiled machine code, and returns its key, which it holds; ""
// for none. Unusable machine code is reported in one line of the log.
func (p *Parent) adopt(ctx context.Context, j Job, dir string, hold *Hold) (key string) {
	if p.options.Precompiled == "" || j.Anew {
		return ""
	}
	key, err := p.takeOver(j, dir, hold)
	if err != nil {
		klog.FromContext(ctx).Info("Precompiled machine code is not used; the module is compiled anew", "dir", p.options.Precompiled,
			"file", precompiledName(j), "reason", text.Line(err.Error(), maxErrorBytes))
		return ""
	}
	klog.FromContext(ctx).Info("The machine code of the module was compiled before", "dir", p.options.Precompiled, "file", precompiledName(j))
	return key
}

func (p *Parent) takeOver(j Job, dir string, hold *Hold) (string, error) {
	root, err := os.OpenRoot(p.options.Precompiled)
	if err != nil {
		return "", err
	}
	defer root.Close()
	made, err := readPrecompiled(root, precompiledName(j))
	if err != nil {
		return "", err
	}
	here, err := p.describe(j)
	if err != nil {
		return "", err
	}
	if why := made.differs(here); why != "" {
		return "", errors.New(why + "; compile it anew with ccmctl compile")
	}
	hold.take(p.hold(made.Key))
	if p.cache.has(made.Key) { // taken over before
		return made.Key, nil
	}
	return made.Key, p.copyIn(root, made, filepath.Join(dir, "precompiled"), j.Limits.OutputBytes)
}

// copyIn copies the machine code into the cache, through a staging directory.
func (p *Parent) copyIn(root *os.Root, made precompiled, out string, most uint64) error {
	sizes, sum, err := made.sizes(root, most)
	if err != nil {
		return err
	}
	granted, release := p.options.Quota.Reserve(out, sum)
	defer release()
	if granted < sum {
		return quota.ErrFull
	}
	defer os.RemoveAll(out)
	for name, digest := range made.Files {
		if err := copyFile(root, name, filepath.Join(out, name), digest, sizes[name]); err != nil {
			return err
		}
	}
	p.accepting.Lock()
	defer p.accepting.Unlock()
	if err := p.cache.accept(made.Key, out); err != nil {
		return err
	}
	p.cache.prune(p.isHeld)
	return nil
}

// sizes are the sizes of the files, each at most the limit.
func (made precompiled) sizes(root *os.Root, most uint64) (sizes map[string]int64, sum int64, err error) {
	sizes = map[string]int64{}
	for name := range made.Files {
		if !filepath.IsLocal(name) {
			return nil, 0, fmt.Errorf("%s is outside of the directory", text.Quote(name))
		}
		info, err := root.Stat(name)
		switch {
		case err != nil:
			return nil, 0, err
		case !info.Mode().IsRegular():
			return nil, 0, fmt.Errorf("%s is not a file", name)
		case uint64(info.Size()) > most:
			return nil, 0, fmt.Errorf("%s has more than %s, the limit of machine code", name, mebibytes(most))
		}
		sizes[name] = info.Size()
		sum += info.Size()
	}
	return sizes, sum, nil
}

func readPrecompiled(root *os.Root, name string) (made precompiled, err error) {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return made, errors.New("no machine code of this module for this engine")
	case err != nil:
		return made, err
	case !info.Mode().IsRegular(): // opening a pipe would block
		return made, fmt.Errorf("%s is not a file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return made, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return made, err
	}
	// Invariant M25 (host/SECURITY.md): this file vouches for the digests of all others.
	if err := checkNobodyElses(info, name); err != nil && !mountedReadOnly(root.Name()) {
		return made, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPrecompiledBytes+1))
	if err != nil {
		return made, err
	}
	if len(data) > maxPrecompiledBytes {
		return made, fmt.Errorf("%s has more than %d bytes", name, maxPrecompiledBytes)
	}
	if err := json.Unmarshal(data, &made); err != nil {
		return made, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if key, err := hex.DecodeString(made.Key); err != nil || len(key) != sha256.Size || len(made.Files) > maxPrecompiledFiles || made.Files[outline(made.Key)] == "" {
		return made, fmt.Errorf("%s is damaged", name)
	}
	return made, nil
}

// copyFile copies a file of that digest and size; it compares the copied bytes.
func copyFile(root *os.Root, name, to, digest string, size int64) error {
	from, err := root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(target, h), io.LimitReader(from, size))
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != digest {
		return fmt.Errorf("%s is not as it was written", name)
	}
	return nil
}

// VersionOf names the dependencies of machine code beside the module: Go's version, and that
// of the engine in the binary.
func VersionOf(info *debug.BuildInfo, engineName string) string {
	for _, dependency := range info.Deps {
		if strings.Contains(dependency.Path, engineName) {
			return info.GoVersion + " " + dependency.Path + "@" + dependency.Version
		}
	}
	return info.GoVersion
}

// checkPrecompiled refuses a directory that others than the administrator can write to. A
// read-only mount is trusted.
func checkPrecompiled(dir string) error {
	if dir == "" || mountedReadOnly(dir) {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("precompiled modules: %w", err)
	}
	// Invariant M25 (host/SECURITY.md): the directory's machine code is run, so nobody else may
	// write it.
	if err := checkNobodyElses(info, dir); err != nil {
		return fmt.Errorf("precompiled modules: %w, or mount it read-only", err)
	}
	return nil
}

// checkNobodyElses refuses files that others than root and this user may change.
func checkNobodyElses(info os.FileInfo, name string) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is writable by others (mode %#o), and the manager runs the code in it: chmod go-w it", name, info.Mode().Perm())
	}
	if uid, known := ownedBy(info); known && uid != 0 && int(uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and user %d runs the code in it: chown it to root", name, uid, os.Geteuid())
	}
	return nil
}
