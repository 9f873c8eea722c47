package requests_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// A request of a test has every field that a real one has.
func TestRequestsAreComplete(t *testing.T) {
	for name, message := range map[string]any{
		"Instance":     requests.Instance("n").Node,
		"LoadBalancer": requests.LoadBalancer("shop", "web").Service,
		"VolumeLabels": requests.VolumeLabels("pv").Volume,
	} {
		m := reflect.ValueOf(message).Elem()
		for i := range m.NumField() {
			field := m.Type().Field(i)
			if field.IsExported() && m.Field(i).IsZero() && !optional[name+"."+field.Name] {
				t.Errorf("%s: %s is empty", name, field.Name)
			}
		}
	}
	if a, b := requests.Instance("a").Node, requests.Instance("b").Node; a.Uid == b.Uid || a.SystemUuid == b.SystemUuid {
		t.Error("two Nodes are one machine")
	}
	changed := requests.Instance("a", func(n *corev1.Node) { n.Spec.ProviderID = "other://1" })
	if changed.Node.ProviderId != "other://1" || changed.Node.Name != "a" {
		t.Errorf("changed: %v", changed)
	}
}

// optional are fields that most real objects leave out.
var optional = map[string]bool{
	"LoadBalancer.ExternalIps": true, "LoadBalancer.LoadBalancerIp": true, "LoadBalancer.LoadBalancerSourceRanges": true,
	"LoadBalancer.LoadBalancerClass": true, "LoadBalancer.SessionAffinityTimeoutSeconds": true, "LoadBalancer.Deleting": true,
	"VolumeLabels.NodeNames": true,
}

// objectsOfRequests are the messages that convert makes of objects.
var objectsOfRequests = map[string]bool{"Service": true, "Node": true, "Volume": true}

// No test of the host makes these messages by hand: they would have a name and
// little else. What decodes into an empty one may, and so may convert.
func TestNobodyMakesRequestsByHand(t *testing.T) {
	found := 0
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "cloud/convert/") {
			return err
		}
		found++
		for _, position := range byHand(t, path) {
			t.Errorf("%s makes a request by hand: take host/test/requests", position)
		}
		return nil
	})
	if err != nil || found < 500 {
		t.Errorf("%d files: %v", found, err)
	}
}

func TestWhatIsMadeByHandIsFound(t *testing.T) {
	const source = `package p
var a = &abi.InstanceRequest{Node: &abi.Node{Name: "n"}}
var b = []*abi.Service{{Name: "s"}}
var c = map[string]abi.Volume{"v": {Name: "v"}}
var decoded, answer = &abi.Node{}, &abi.Route{Name: "r"}
var none = []*abi.Node{}
`
	path := filepath.Join(t.TempDir(), "p_test.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := byHand(t, path); len(got) != 3 {
		t.Errorf("found %q, want three", got)
	}
}

// byHand finds literals of the messages that have contents, with or without a
// type of their own.
func byHand(t *testing.T, path string) (positions []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.CompositeLit); ok && len(literal.Elts) > 0 && isObject(literal.Type) {
			positions = append(positions, files.Position(literal.Pos()).String())
		}
		return true
	})
	return positions
}

// isObject: abi.Node, and lists and maps of it.
func isObject(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.SelectorExpr:
		of, ok := x.X.(*ast.Ident)
		return ok && of.Name == "abi" && objectsOfRequests[x.Sel.Name]
	case *ast.StarExpr:
		return isObject(x.X)
	case *ast.ArrayType:
		return isObject(x.Elt)
	case *ast.MapType:
		return isObject(x.Value)
	}
	return false
}
