//go:build cpo

package main

import (
	"go/ast"
	"go/token"
)

// Step is a call or an assignment in the body of a function, for tests that
// are no table.
type Step struct {
	// Call is the name of the called function, or empty.
	Call string
	// Args are the arguments; one that cannot be read is nil.
	Args []any
	// Set is "VARIABLE.FIELD" of an assignment, or empty; Value is what
	// stands on its right, whose own "VARIABLE.FIELD" is the value before.
	Set   string
	Value func(before string) (any, error)
	Pos   string
}

// Steps are those of the function's own statements, in their order.
func (f *Func) Steps() (steps []Step) {
	for _, statement := range f.decl.Body.List {
		switch s := statement.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok {
				steps = append(steps, f.callStep(call))
			}
		case *ast.AssignStmt:
			if field, ok := s.Lhs[0].(*ast.SelectorExpr); ok && s.Tok == token.ASSIGN {
				steps = append(steps, f.setStep(field, s.Rhs[0]))
			}
		}
	}
	return steps
}

func (f *Func) callStep(call *ast.CallExpr) Step {
	step := Step{Call: callName(call), Pos: f.source.position(call)}
	for _, arg := range call.Args {
		value, _ := f.eval(arg, 0)
		if name, ok := arg.(*ast.Ident); ok && f.locals[name.Name] != nil {
			value = Symbol(name.Name) // its value may have changed since
		}
		step.Args = append(step.Args, value)
	}
	return step
}

func (f *Func) setStep(field *ast.SelectorExpr, right ast.Expr) Step {
	name := ""
	if of, ok := field.X.(*ast.Ident); ok {
		name = of.Name + "." + field.Sel.Name
	}
	return Step{Set: name, Pos: f.source.position(field), Value: func(before string) (any, error) {
		sum, ok := right.(*ast.BinaryExpr)
		if !ok {
			return f.eval(right, 0)
		}
		left, err := f.eval(sum.X, 0)
		if text, ok := left.(string); ok && err == nil {
			return text + before, nil
		}
		return nil, f.fail(right, "this sum")
	}}
}

// Want is one assertion "if cfg.A.B != value", as its path and the value.
type Want struct {
	Path  []string
	Value any
	Pos   string
}

// Wants are the assertions on the fields of a variable in the function's own
// statements.
func (f *Func) Wants(variable string) (wants []Want) {
	for _, statement := range f.decl.Body.List {
		condition, ok := statement.(*ast.IfStmt)
		if !ok {
			continue
		}
		left, value := condition.Cond, any(true)
		switch c := condition.Cond.(type) {
		case *ast.UnaryExpr: // if !cfg.A.B
			left = c.X
		case *ast.BinaryExpr:
			left = c.X
			var err error
			if value, err = f.eval(c.Y, 0); err != nil {
				value = err
			}
		}
		if path := fields(left); len(path) > 1 && path[0] == variable {
			wants = append(wants, Want{path[1:], value, f.source.position(condition)})
		}
	}
	return wants
}

// fields are the names in a.b.c.
func fields(e ast.Expr) []string {
	switch x := e.(type) {
	case *ast.Ident:
		return []string{x.Name}
	case *ast.SelectorExpr:
		return append(fields(x.X), x.Sel.Name)
	}
	return nil
}

// Literals are the texts of all calls of a function, wherever they are:
// ReadConfig(strings.NewReader(`...`)). One that cannot be read is "".
func (f *Func) Literals(function string) (texts []string) {
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && callName(call) == function && len(call.Args) == 1 {
			value, _ := f.eval(call.Args[0], 0)
			text, _ := value.(string)
			texts = append(texts, text)
		}
		return true
	})
	return texts
}
