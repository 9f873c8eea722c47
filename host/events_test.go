package host_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// Each reason of an Event that the code makes is in the register, and no other. The
// types of those that have always the same are right.
func TestEventsAreInTheRegister(t *testing.T) {
	documented := map[string]string{} // type by reason
	for _, group := range report.Events() {
		for _, e := range group.Events {
			documented[e.Reason] = string(e.Type)
		}
	}
	found := reasons(t)
	for reason, kinds := range found {
		if got, want := documented[reason], strings.Join(kinds, " or "); got != want {
			t.Errorf("the register says %q of %s, which is %s", got, reason, want)
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
				value := constants[filepath.Dir(path)+"."+nameOf(call.Args[i+1])]
				if value == "" {
					continue // composed
				}
				reason := cmp.Or(constants[value], value)
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

// nameOf is an identifier's name, or "".
func nameOf(expr ast.Expr) string {
	if name, ok := expr.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// constant is the value of a text, or the key of one of the register.
func constant(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.SelectorExpr:
		if nameOf(x.X) == "report" {
			return "internal/report." + x.Sel.Name
		}
	}
	return ""
}
