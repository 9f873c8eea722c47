//go:build cpo

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// This file, cpo_eval_test.go and cpo_calls_test.go read the test tables of
// cloud-provider-openstack out of its Go source, so that its cases can run as data
// against this provider without a copy of them. They support literals, constants, local
// variables and a few calls; anything else is an error that says what and where.

// Source is one package with its tests. It is only read after Load.
type Source struct {
	files  *token.FileSet
	consts map[string]ast.Expr
	funcs  map[string]*ast.FuncDecl
	tests  []string
}

// Load parses the package in a directory.
func Load(dir string) (*Source, error) {
	s := &Source{files: token.NewFileSet(), consts: map[string]ast.Expr{}, funcs: map[string]*ast.FuncDecl{}}
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s has no Go files: %w", dir, errors.Join(err, fs.ErrNotExist))
	}
	for _, name := range names {
		// The base name only: positions must not tell where the cache is.
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		file, err := parser.ParseFile(s.files, name, text, 0)
		if err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
		s.add(file, strings.HasSuffix(name, "_test.go"))
	}
	return s, nil
}

func (s *Source) add(file *ast.File, test bool) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				continue
			}
			s.funcs[d.Name.Name] = d
			if test && strings.HasPrefix(d.Name.Name, "Test") {
				s.tests = append(s.tests, d.Name.Name)
			}
		case *ast.GenDecl:
			addConsts(d, s.consts)
		}
	}
}

func addConsts(d *ast.GenDecl, consts map[string]ast.Expr) {
	for _, spec := range d.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for i, name := range values.Names {
			if i < len(values.Values) {
				consts[name.Name] = values.Values[i]
			}
		}
	}
}

// Tests are the names of the test functions, file by file.
func (s *Source) Tests() []string { return s.tests }

// Func is one function whose variables can be read.
type Func struct {
	source *Source
	decl   *ast.FuncDecl
	locals map[string]ast.Expr
}

// Func finds a function.
func (s *Source) Func(name string) (*Func, error) {
	decl := s.funcs[name]
	if decl == nil || decl.Body == nil {
		return nil, fmt.Errorf("there is no function %s", name)
	}
	f := &Func{source: s, decl: decl, locals: map[string]ast.Expr{}}
	for _, statement := range decl.Body.List {
		f.note(statement)
	}
	return f, nil
}

// note takes the first value of each variable.
func (f *Func) note(statement ast.Stmt) {
	switch s := statement.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			return
		}
		for i, left := range s.Lhs {
			name, ok := left.(*ast.Ident)
			if !ok || name.Name == "_" {
				continue
			}
			f.locals[name.Name] = s.Rhs[min(i, len(s.Rhs)-1)]
		}
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok {
			addConsts(d, f.locals)
			f.noteVars(d)
		}
	}
}

func (f *Func) noteVars(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for i, name := range values.Names {
			f.locals[name.Name] = ast.NewIdent("nil")
			if i < len(values.Values) {
				f.locals[name.Name] = values.Values[i]
			}
		}
	}
}

// Pos is "FILE:LINE" of the function.
func (f *Func) Pos() string { return f.source.position(f.decl) }

func (s *Source) position(node ast.Node) string {
	p := s.files.Position(node.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// Var reads a variable or constant of the function.
func (f *Func) Var(name string) (any, error) {
	if f.locals[name] == nil {
		return nil, fmt.Errorf("%s has no variable %s", f.decl.Name.Name, name)
	}
	return f.eval(f.locals[name], 0)
}

// Case is one case of a table.
type Case struct {
	// Name is the case's own, else its number, from 1 on.
	Name string
	// Pos is "FILE:LINE" of the case.
	Pos   string
	Value any
	// Err says why it cannot be read as data.
	Err error
}

// Table reads a variable that holds a list of cases, or a map of them: each
// case is then an Object with the fields "key" and "value".
func (f *Func) Table(name string) ([]Case, error) {
	literal, ok := f.locals[name].(*ast.CompositeLit)
	if !ok {
		return nil, fmt.Errorf("%s has no table %s", f.decl.Name.Name, name)
	}
	cases := make([]Case, 0, len(literal.Elts))
	for i, element := range literal.Elts {
		c := Case{Name: fmt.Sprint(i + 1), Pos: f.source.position(element)}
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			c.Value, c.Err = f.pair(pair)
		} else {
			c.Value, c.Err = f.eval(element, 0)
		}
		for _, field := range []string{"name", "testName"} {
			if text := Text(c.Value, field); text != "" {
				c.Name = text
			}
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func (f *Func) pair(pair *ast.KeyValueExpr) (any, error) {
	key, err := f.eval(pair.Key, 0)
	if err != nil {
		return nil, err
	}
	value, err := f.eval(pair.Value, 0)
	return &Object{Fields: map[string]any{"key": key, "value": value}}, err
}
