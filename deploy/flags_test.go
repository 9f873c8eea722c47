package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

var (
	flagName = regexp.MustCompile(`(?:^|[^a-zA-Z0-9_.=/-])(--[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(-\*|-\.\.\.)?`)
	// configPath begins with the list of providers; what stands behind is the
	// fields below.
	configPath = regexp.MustCompile(`providers\[\]((?:\.[a-zA-Z][a-zA-Z0-9]*(?:\[\])?)+)`)
)

// others are the flags of other programs that texts mention.
func others() map[string]string {
	flags := map[string]string{}
	for program, names := range map[string]string{
		"kubectl":    "--patch --replicas --previous --all-namespaces --cascade --dry-run --field-selector --from-file --from-literal --overwrite --tcp --type --wait --for --server-side --namespace --timeout --ignore-not-found --ignore-daemonsets --delete-emptydir-data --tail --clusterrole --serviceaccount --docker-server --docker-username --docker-password --show-labels",
		"helm":       "--values --set --reset-then-reuse-values --take-ownership --force-conflicts --strict",
		"git":        "--porcelain --verify --no-patch --format --show-toplevel --no-filters --add --cacheinfo",
		"skopeo":     "--all --raw",
		"kubelet":    "--node-labels --node-ip --provider-id",
		"apiserver":  "--kubelet-certificate-authority",
		"cosign":     "--bundle --new-bundle-format --out --output-signature --signing-config --tlog-upload --key --insecure-ignore-tlog",
		"prometheus": "--enable-feature",
		"zstd":       "--long --ultra",
		"protoc":     "--go-lite_out --go-lite",
		"krew":       "--manifest --archive",
		"openstack":  "--role",
		"llvm":       "--add-section",
		"clang":      "--target --no-entry --strip-all",
	} {
		for _, name := range strings.Fields(names) {
			flags[name] = program
		}
	}
	return flags
}

// Every flag that an error, a document or a manifest of this tree tells people
// to use is one of the programs that are released, or known to be another's.
func TestMentionedFlagsExist(t *testing.T) {
	known, manager := releasedFlags(t), built(t, "cloud-controller-manager")
	foreign := others()
	for _, text := range texts(t) {
		for _, m := range flagName.FindAllStringSubmatch(text.content, -1) {
			name, open := m[1], m[2] != ""
			switch {
			case known[name], foreign[name] != "" && !open:
			case open && hasPrefix(known, name):
			case !open && takes(t, manager, name):
				known[name] = true // deprecated: it works, and --help does not show it
			default:
				t.Errorf("%s: no program of ours has the flag %s", text.where, name)
			}
		}
	}
}

// Every path of the configuration that is mentioned is a field of it. What the
// chart has beside it is in its schema.
func TestMentionedConfigurationExists(t *testing.T) {
	found := 0
	for _, text := range texts(t) {
		if strings.HasPrefix(text.file, "../deploy/chart/") {
			continue
		}
		for _, m := range configPath.FindAllStringSubmatch(text.content, -1) {
			found++
			if !hasField(reflect.TypeFor[v1alpha1.Provider](), strings.Split(m[1][1:], ".")) {
				t.Errorf("%s: the configuration has no %s", text.where, m[0])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d paths are mentioned: is this the right expression?", found)
	}
}

// The flags for which --config stands: an error that says to use one of them
// says what to write there, too.
func TestErrorsNameTheConfigurationBesideTheFlag(t *testing.T) {
	standsFor := regexp.MustCompile(`--provider-(configmap|dir)`)
	for _, text := range texts(t) {
		if filepath.Ext(text.file) != ".go" || strings.HasPrefix(text.file, "../host/internal/manager/config/") {
			continue // who parses the flags
		}
		if m := standsFor.FindString(text.content); m != "" && !strings.Contains(text.content, "providers[]") {
			t.Errorf("%s names %s, and not the field of the HostConfiguration: %s", text.where, m, text.content)
		}
	}
}

func hasPrefix(flags map[string]bool, prefix string) bool {
	for name := range flags {
		if strings.HasPrefix(name, prefix+"-") {
			return true
		}
	}
	return false
}

// hasField follows the names of JSON.
func hasField(t reflect.Type, path []string) bool {
	if len(path) == 0 {
		return true
	}
	name := strings.TrimSuffix(path[0], "[]")
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return hasField(t.Field(i).Type, path[1:])
		}
	}
	return false
}

// releasedFlags are those that the programs say they have.
func releasedFlags(t *testing.T) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	run := func(name string, args ...string) string {
		out, err := exec.CommandContext(t.Context(), built(t, name), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %.500s", name, args, err, out)
		}
		for _, m := range regexp.MustCompile(`--[a-z][a-z0-9-]*`).FindAllString(string(out), -1) {
			flags[m] = true
		}
		return string(out)
	}
	run("cloud-controller-manager", "--help")
	_, commands, _ := strings.Cut(run("ccmctl", "--help"), "Available Commands:")
	commands, _, _ = strings.Cut(commands, "Flags:")
	for line := range strings.Lines(commands) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "completion" && words[0] != "help" {
			run("ccmctl", words[0], "--help")
		}
	}
	return flags
}

// takes reports whether a program accepts a flag that its help leaves out.
func takes(t *testing.T, program, name string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, name+"=true", "--help").CombinedOutput()
	return err == nil && !strings.Contains(string(out), "unknown flag")
}

// text is what people may be shown: a document, a manifest, or a string of the
// code.
type text struct{ file, where, content string }

func texts(t *testing.T) (all []text) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch {
			case path != ".." && strings.HasPrefix(d.Name(), "."), d.Name() == "build", d.Name() == "testdata", d.Name() == "vendor":
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case filepath.Ext(path) == ".md", filepath.Ext(path) == ".yaml":
			data, err := os.ReadFile(path)
			all = append(all, text{path, path, string(data)})
			return err
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go"):
			found, err := literals(path)
			all = append(all, found...)
			return err
		}
		return nil
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("%d texts: %v", len(all), err)
	}
	return all
}

// literals are the strings of a file; those that are added up are one.
func literals(path string) (all []text, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		content, ok := joined(n)
		if ok {
			all = append(all, text{path, files.Position(n.Pos()).String(), content})
		}
		return !ok
	})
	return all, nil
}

func joined(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(n.Value)
		return s, n.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := joined(n.X)
		right, also := joined(n.Y)
		return left + right, ok && also && n.Op == token.ADD
	}
	return "", false
}
