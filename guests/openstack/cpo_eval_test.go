//go:build cpo

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Values are string, int64, float64, bool, nil, Symbol, []any, *Object and
// Map. A pointer is what it points to.

// Symbol is a name of another package, e.g. "corev1.ProtocolTCP".
type Symbol string

// Object is a struct; fields without a name are "0", "1", ...
type Object struct {
	Type   string // as written, without "*"; may be empty
	Fields map[string]any
}

// Map is a map in the order of the source; keys may be objects.
type Map []Entry

// Entry is one entry of a Map.
type Entry struct{ Key, Value any }

// maxDepth bounds variables that refer to each other.
const maxDepth = 100

func (f *Func) fail(node ast.Node, what string) error {
	return fmt.Errorf("%s: %s cannot be read as data", f.source.position(node), what)
}

func (f *Func) eval(expr ast.Expr, depth int) (any, error) {
	if depth > maxDepth {
		return nil, f.fail(expr, "what refers to itself")
	}
	switch e := expr.(type) {
	case *ast.BasicLit:
		return f.basic(e)
	case *ast.ParenExpr:
		return f.eval(e.X, depth+1)
	case *ast.UnaryExpr:
		return f.unary(e, depth)
	case *ast.BinaryExpr:
		return f.binary(e, depth)
	case *ast.Ident:
		return f.ident(e, depth)
	case *ast.SelectorExpr:
		return f.selector(e, depth)
	case *ast.CompositeLit:
		return f.composite(e, depth)
	case *ast.CallExpr:
		return f.call(e, depth)
	}
	return nil, f.fail(expr, fmt.Sprintf("%T", expr))
}

func (f *Func) basic(e *ast.BasicLit) (any, error) {
	switch e.Kind {
	case token.STRING:
		return strconv.Unquote(e.Value)
	case token.INT:
		return strconv.ParseInt(e.Value, 0, 64)
	case token.FLOAT:
		return strconv.ParseFloat(e.Value, 64)
	}
	return nil, f.fail(e, e.Value)
}

func (f *Func) unary(e *ast.UnaryExpr, depth int) (any, error) {
	value, err := f.eval(e.X, depth+1)
	number, isNumber := value.(int64)
	switch {
	case e.Op == token.AND:
		return value, err
	case e.Op == token.SUB && isNumber:
		return -number, err
	}
	return nil, f.fail(e, "the operator "+e.Op.String())
}

func (f *Func) binary(e *ast.BinaryExpr, depth int) (any, error) {
	x, err := f.eval(e.X, depth+1)
	if err != nil {
		return nil, err
	}
	y, err := f.eval(e.Y, depth+1)
	if unit, ok := y.(Symbol); ok && err == nil && e.Op == token.MUL && units[unit] > 0 {
		if count, ok := x.(int64); ok {
			return count * units[unit], nil
		}
	}
	left, isLeft := x.(string)
	right, isRight := y.(string)
	if err != nil || e.Op != token.ADD || !isLeft || !isRight {
		return nil, f.fail(e, "the operator "+e.Op.String())
	}
	return left + right, nil
}

// units of time, in nanoseconds.
var units = map[Symbol]int64{"time.Second": 1e9, "time.Minute": 60e9} //nolint:gochecknoglobals // a constant

func (f *Func) ident(e *ast.Ident, depth int) (any, error) {
	switch e.Name {
	case "nil":
		return nil, nil
	case "true", "false":
		return e.Name == "true", nil
	}
	if value := f.locals[e.Name]; value != nil {
		return f.eval(value, depth+1)
	}
	if value := f.source.consts[e.Name]; value != nil {
		return f.eval(value, depth+1)
	}
	return nil, f.fail(e, "the name "+e.Name)
}

// selector is a field of a variable, or a name of another package.
func (f *Func) selector(e *ast.SelectorExpr, depth int) (any, error) {
	if of, ok := e.X.(*ast.Ident); ok && f.locals[of.Name] == nil {
		return Symbol(of.Name + "." + e.Sel.Name), nil
	}
	value, err := f.eval(e.X, depth+1)
	if object, ok := value.(*Object); ok {
		return object.Fields[e.Sel.Name], nil // nil for the zero value
	}
	return nil, fmt.Errorf("%w: the field %s", f.fail(e, "a field"), errOr(err, e.Sel.Name))
}

func errOr(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

func (f *Func) composite(e *ast.CompositeLit, depth int) (any, error) {
	switch t := e.Type.(type) {
	case *ast.MapType:
		return f.pairs(e, depth)
	case *ast.ArrayType:
		return f.list(e, depth)
	case nil:
		return f.elided(e, depth)
	default:
		return f.object(e, typeName(t), depth)
	}
}

// elided guesses what a literal without a type is.
func (f *Func) elided(e *ast.CompositeLit, depth int) (any, error) {
	if len(e.Elts) > 0 {
		pair, isPair := e.Elts[0].(*ast.KeyValueExpr)
		if !isPair {
			return f.list(e, depth)
		}
		if _, isName := pair.Key.(*ast.Ident); !isName {
			return f.pairs(e, depth)
		}
	}
	return f.object(e, "", depth)
}

func typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}

func (f *Func) object(e *ast.CompositeLit, name string, depth int) (any, error) {
	o := &Object{Type: name, Fields: map[string]any{}}
	for i, element := range e.Elts {
		field := strconv.Itoa(i)
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			key, ok := pair.Key.(*ast.Ident)
			if !ok {
				return nil, f.fail(pair, "this key")
			}
			field, element = key.Name, pair.Value
		}
		value, err := f.eval(element, depth+1)
		if err != nil {
			return nil, err
		}
		o.Fields[field] = value
	}
	return o, nil
}

func (f *Func) list(e *ast.CompositeLit, depth int) (any, error) {
	all := make([]any, 0, len(e.Elts))
	for _, element := range e.Elts {
		value, err := f.eval(element, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

func (f *Func) pairs(e *ast.CompositeLit, depth int) (any, error) {
	all := Map{}
	for _, element := range e.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return nil, f.fail(element, "an entry without a key")
		}
		key, err := f.eval(pair.Key, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := f.eval(pair.Value, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{key, value})
	}
	return all, nil
}

// call knows the calls that tables have in them.
func (f *Func) call(e *ast.CallExpr, depth int) (any, error) {
	name := callName(e)
	if name == "make" {
		return Map{}, nil
	}
	args := make([]any, len(e.Args))
	for i, arg := range e.Args {
		var err error
		if args[i], err = f.eval(arg, depth+1); err != nil {
			return nil, err
		}
	}
	switch {
	case name == "context.Background":
		return nil, nil
	case len(args) == 1 && slices.Contains([]string{"ptr.To", "float64", "net.ParseCIDR", "strings.NewReader"}, name):
		return args[0], nil
	}
	first, ok := firstText(args)
	switch {
	case ok && name == "util.CutString255":
		return first[:min(len(first), 255)], nil
	case ok && name == "fmt.Sprintf":
		return fmt.Sprintf(first, args[1:]...), nil
	case ok && name == "strings.Repeat" && len(args) == 2:
		count, isNumber := args[1].(int64)
		if isNumber && count >= 0 && count < 10000 {
			return strings.Repeat(first, int(count)), nil
		}
	}
	return nil, f.fail(e, "the call "+name)
}

func firstText(args []any) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	text, ok := args[0].(string)
	return text, ok
}

func callName(e *ast.CallExpr) string {
	switch function := e.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		if of, ok := function.X.(*ast.Ident); ok {
			return of.Name + "." + function.Sel.Name
		}
	}
	return fmt.Sprintf("%T", e.Fun)
}

// At goes from field to field, and from key to key of maps; nil where there is
// none.
func At(value any, path ...string) any {
	for _, name := range path {
		switch v := value.(type) {
		case *Object:
			value = v.Fields[name]
		case Map:
			value = v.Get(name)
		default:
			return nil
		}
	}
	return value
}

// Get returns the value of a key that is a string, nil where there is none.
func (m Map) Get(key string) any {
	for _, e := range m {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// Text is the string, or the Symbol as a string, at that path; "" for none.
func Text(value any, path ...string) string {
	switch v := At(value, path...).(type) {
	case string:
		return v
	case Symbol:
		return string(v)
	}
	return ""
}

// Int is the number at that path; 0 for none.
func Int(value any, path ...string) int {
	number, _ := At(value, path...).(int64)
	return int(number)
}

// Bool is the truth at that path; false for none.
func Bool(value any, path ...string) bool {
	truth, _ := At(value, path...).(bool)
	return truth
}

// List is the list at that path; nil for none.
func List(value any, path ...string) []any {
	list, _ := At(value, path...).([]any)
	return list
}

// Names are the names of the fields of an Object, sorted.
func (o *Object) Names() []string { return slices.Sorted(maps.Keys(o.Fields)) }
