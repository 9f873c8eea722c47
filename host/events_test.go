package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each reason of an Event that the code has is in deploy/EVENTS.md, and no other. The
// kinds of those that have always the same are right.
func TestEventsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../deploy/EVENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // kind by reason
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (Normal|Warning|Normal or Warning) \\| \\S").FindAllStringSubmatch(string(data), -1) {
		documented[row[1]] = row[2]
	}
	found := reasons(t)
	for reason, kinds := range found {
		if got, want := documented[reason], strings.Join(kinds, " or "); got != want {
			t.Errorf("EVENTS.md says %q of %s, which is %s", got, reason, want)
		}
		delete(documented, reason)
	}
	for reason := range documented {
		t.Errorf("no code has the Event %s", reason)
	}
	if len(found) < 25 {
		t.Errorf("only %d reasons were found", len(found))
	}
}

// Where the code does not say a kind or a reason as a constant.
var composed = map[string][]string{
	"ProviderVerified": {"Normal"}, "ProviderCompiled": {"Normal"}, "ProviderDescribed": {"Normal"}, "ProviderConfigured": {"Normal"},
	"ProviderProbed": {"Normal"}, "ProviderShadowed": {"Normal"}, "ProviderKept": {"Normal"},
	"ProviderHeld": {"Warning"}, "ProviderRolledBack": {"Normal", "Warning"}, "ProviderServing": {"Normal", "Warning"},
	"ProviderPaused": {"Normal"}, "ProviderResumed": {"Normal"}, "ProviderPromoted": {"Normal"}, "ProviderRollbackRequested": {"Normal"},
	"ProviderRemoved": {"Normal"}, "ProviderNoAnswer": {"Warning"}, "ProviderBackoff": {"Warning"}, "NoProvider": {"Warning"},
	"LoadBalancerClassDecides": {"Warning"}, "HostConfigurationRejected": {"Warning"}, "HostConfigurationPending": {"Normal"},
	"DeletionHeld": {"Normal", "Warning"}, "CannotStart": {"Warning"}, "ProviderInProgress": {"Normal"}, "ProviderDelayed": {"Warning"},
}

// reasons returns the kinds of Events by their reason: from calls with constants, and
// from what is composed.
func reasons(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for reason, kinds := range composed {
		found[reason] = kinds
	}
	constants, files := parse(t)
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for i, argument := range call.Args[:max(0, len(call.Args)-1)] {
				kind, ok := argument.(*ast.SelectorExpr)
				if !ok || !strings.HasPrefix(kind.Sel.Name, "EventType") {
					continue
				}
				name, ok := call.Args[i+1].(*ast.Ident)
				if !ok || constants[filepath.Dir(path)+"."+name.Name] == "" {
					continue // composed
				}
				reason := constants[filepath.Dir(path)+"."+name.Name]
				if word := strings.TrimPrefix(kind.Sel.Name, "EventType"); !slices.Contains(found[reason], word) {
					found[reason] = append(found[reason], word)
					slices.Sort(found[reason])
				}
			}
			return true
		})
	}
	return found
}

// parse returns the constants of the manager's code that are texts, by directory and
// name, and its files.
func parse(t *testing.T) (constants map[string]string, files map[string]*ast.File) {
	t.Helper()
	constants, files = map[string]string{}, map[string]*ast.File{}
	err := filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[path] = file
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			for i := 0; ok && i < min(len(spec.Names), len(spec.Values)); i++ {
				constants[filepath.Dir(path)+"."+spec.Names[i].Name] = constant(spec.Values[i])
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return constants, files
}

// constant is the value of a text, also of one that begins with the prefix of all.
func constant(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		if prefix, ok := x.X.(*ast.Ident); ok && prefix.Name == "eventPrefix" && constant(x.Y) != "" {
			return "Provider" + constant(x.Y)
		}
	}
	return ""
}
