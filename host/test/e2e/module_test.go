package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// configMap is the name of the module's ConfigMap in the script's namespace.
const configMap = "provider"

// module replaces the whole content of the module's ConfigMap, or removes it:
//
//	module put KEY=FILE...
//	module delete
//	module digest VAR FILE   sets VAR to the sha256 of the file, in hex
//	module key FILE VAR      makes a key; VAR is the public one, as text of YAML
//	module sign KEY FILE OUT signs a module
//	module split COUNT FILE NAME  writes NAME-0, NAME-1, ... and NAME.parts
func (h *harness) module(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "module put KEY=FILE... | module delete | module digest|key|sign|split ARG...")
	switch {
	case args[0] == "put":
		h.configmap(ts, false, append([]string{configMap}, args[1:]...))
	case args[0] == "delete":
		ts.Check(h.client.CoreV1().ConfigMaps(h.namespace).Delete(context.Background(), configMap, metav1.DeleteOptions{}))
	case args[0] == "digest" && len(args) == 3:
		sum := sha256.Sum256(read(ts, args[2]))
		ts.Setenv(args[1], hex.EncodeToString(sum[:]))
	case args[0] == "key" && len(args) == 3:
		makeKey(ts, args[1], args[2])
	case args[0] == "sign" && len(args) == 4:
		sign(ts, args[1], args[2], args[3])
	case args[0] == "split" && len(args) == 4:
		split(ts, args[1], args[2], args[3])
	default:
		ts.Fatalf("module %s: unknown", args[0])
	}
}

// mutate derives a module, mostly a broken one, from another:
//
//	mutate gzip IN OUT              compressed
//	mutate truncate IN OUT          the last 16 KiB are missing
//	mutate magic IN OUT             does not begin with \0asm
//	mutate rename:OLD=>NEW IN OUT    every OLD is a NEW of the same length
//	mutate manifest:OLD=>NEW IN OUT  in the manifest every OLD is a NEW
//	mutate unmanifest IN OUT        has no manifest
//	mutate pad:BYTES IN OUT         has a custom section of that many bytes more
//	mutate bomb:BYTES IN OUT        as pad, and compressed
func (h *harness) mutate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "mutate KIND IN OUT")
	kind, argument, _ := strings.Cut(args[0], ":")
	out, err := derive(kind, argument, read(ts, args[1]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), out, 0o600))
}

func derive(kind, argument string, module []byte) ([]byte, error) {
	switch kind {
	case "gzip":
		return compress(module)
	case "truncate":
		return module[:len(module)-16<<10], nil
	case "magic":
		return append([]byte("\x7fELF"), module[4:]...), nil
	case "rename":
		return rename(module, argument)
	case "manifest":
		return editManifest(module, argument)
	case "unmanifest":
		return dropManifest(module)
	case "pad", "bomb":
		n, err := strconv.Atoi(argument)
		if err != nil {
			return nil, err
		}
		module = append(bytes.Clone(module), customSection("padding", make([]byte, n))...)
		if kind == "bomb" {
			return compress(module)
		}
		return module, nil
	}
	return nil, fmt.Errorf("mutate %s: unknown", kind)
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

func rename(module []byte, argument string) ([]byte, error) {
	old, name, ok := strings.Cut(argument, "=>")
	if !ok || len(old) != len(name) || !bytes.Contains(module, []byte(old)) {
		return nil, fmt.Errorf("rename %q: the names must have one length and the module the old one", argument)
	}
	return bytes.ReplaceAll(module, []byte(old), []byte(name)), nil
}

// editManifest writes a manifest that manifest.Append would refuse.
func editManifest(module []byte, argument string) ([]byte, error) {
	old, text, ok := strings.Cut(argument, "=>")
	section, found, err := manifest.Section(module)
	if err != nil || !found || !ok || !bytes.Contains(section, []byte(old)) {
		return nil, fmt.Errorf("the manifest has no %q: %w", old, err)
	}
	rest, err := dropManifest(module)
	edited := bytes.ReplaceAll(section, []byte(old), []byte(text))
	return append(rest, customSection(abi.ManifestSection, edited)...), err
}

// dropManifest cuts the section off. The build appends it as the last one.
func dropManifest(module []byte) ([]byte, error) {
	section, found, err := manifest.Section(module)
	if err != nil || !found {
		return nil, fmt.Errorf("the module has no manifest: %w", err)
	}
	tail := customSection(abi.ManifestSection, section)
	if !bytes.HasSuffix(module, tail) {
		return nil, fmt.Errorf("the manifest is not the module's last section")
	}
	return bytes.Clone(module[:len(module)-len(tail)]), nil
}

func customSection(name string, content []byte) []byte {
	body := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
	body = append(body, content...)
	return append(binary.AppendUvarint([]byte{0}, uint64(len(body))), body...)
}

func read(ts *testscript.TestScript, file string) []byte {
	data, err := os.ReadFile(ts.MkAbs(file))
	ts.Check(err)
	return data
}
