package kubecache

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// No key that upstream's code names can be granted, those of the next release
// included, unless harmless says why.
func TestNoKeyOfUpstreamCanBeGranted(t *testing.T) {
	keys := 0
	for _, module := range []string{"k8s.io/api", "k8s.io/cloud-provider", "k8s.io/component-helpers"} {
		dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		for key, place := range keysOf(t, strings.TrimSpace(string(dir))) {
			keys++
			if CheckKey(key) == nil && harmless[key] == "" {
				t.Errorf("%s of %s can be granted: does somebody decide by it?", key, place)
			}
		}
	}
	if keys < 50 {
		t.Errorf("%d keys were found", keys)
	}
}

// keysOf are the string literals of a module's code that are keys with a domain.
func keysOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				_, imported := n.(*ast.ImportSpec)
				return !imported
			}
			if key, err := strconv.Unquote(literal.Value); err == nil && isKey(key) {
				found[key] = path
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isKey(s string) bool {
	domain, _, qualified := strings.Cut(s, "/")
	return qualified && strings.Contains(domain, ".") && strings.ContainsAny(domain, "abcdefghijklmnopqrstuvwxyz") && len(validation.IsQualifiedName(s)) == 0
}
