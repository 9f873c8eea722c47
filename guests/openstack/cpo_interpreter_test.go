//go:build cpo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const packageSource = `package p

const (
	Prefix = "p/"
	Key    = Prefix + "key"
)

type T struct{}

func (T) TestOfNobody() {}
`

const testSource = `package p

import "testing"

func TestTable(t *testing.T) {
	shared := &conf{limit: 100, name: "n"}
	list := []*net.IPNet{}
	_, cidr, _ := net.ParseCIDR("10.0.0.0/8")
	var empty []string
	const long = "x"
	tests := []struct{ name string }{
		{name: "numbers", n: -3, f: 1.5, b: true, e: nil, h: 0x10, wait: 2 * time.Minute},
		{name: "texts", s: fmt.Sprintf("%s-%s", cidr, "y"), r: strings.Repeat("ab", 2), cut: util.CutString255("abc"), raw: ` + "`a\n`" + `},
		{name: "inner", conf: &conf{a: ptr.To(pools.PROXY), b: []string{"1", "2"}, m: map[string]string{Key: "v", "w": long}, limit: &shared.limit, zero: shared.other}},
		{name: "keys", m: map[key]*conf{{port: 80}: {id: "i"}}, none: make(map[string]string), list: list, empty: empty},
		{name: "positional", v: V{W{x: 1}, 2}},
		{name: "call", f: os.Getenv("HOME")},
		{name: "function", f: func() {}},
		{name: "unknown", f: nobody},
		{n: 9},
	}
	byName := map[string]int{"a": 1, Key: 2}
	loop := loop
}

func TestSteps(t *testing.T) {
	one := spec{tags: "a,b"}
	cfg, err := Read(strings.NewReader("text"))
	run(t, &one, one, true)
	one.tags = "&" + one.tags
	run(t, one, 1)
	if cfg.Global.URL != "u" {
		t.Errorf("x")
	}
	if !cfg.LB.Monitor {
		t.Errorf("y")
	}
	if err != nil {
		t.Fatal(err)
	}
}
`

func load(t *testing.T) *Source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"p.go": packageSource, "p_test.go": testSource} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func function(t *testing.T, name string) *Func {
	t.Helper()
	f, err := load(t).Func(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCPOLoad(t *testing.T) {
	if got := load(t).Tests(); !slices.Equal(got, []string{"TestTable", "TestSteps"}) {
		t.Error(got)
	}
	if _, err := load(t).Func("TestNothing"); err == nil || err.Error() != "there is no function TestNothing" {
		t.Error(err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no Go files") {
		t.Error(err)
	}
}

func TestCPOValues(t *testing.T) {
	f := function(t, "TestTable")
	cases, err := f.Table("tests")
	if err != nil {
		t.Fatal(err)
	}
	fields := func(pairs ...any) *Object {
		o := &Object{Fields: map[string]any{}}
		for i := 0; i < len(pairs); i += 2 {
			o.Fields[pairs[i].(string)] = pairs[i+1]
		}
		return o
	}
	inner := fields("a", Symbol("pools.PROXY"), "b", []any{"1", "2"}, "m", Map{{"p/key", "v"}, {"w", "x"}}, "limit", int64(100), "zero", nil)
	inner.Type = "conf"
	positional := &Object{Type: "V", Fields: map[string]any{"0": &Object{Type: "W", Fields: map[string]any{"x": int64(1)}}, "1": int64(2)}}
	want := []any{
		fields("name", "numbers", "n", int64(-3), "f", 1.5, "b", true, "e", nil, "h", int64(16), "wait", int64(120e9)),
		fields("name", "texts", "s", "10.0.0.0/8-y", "r", "abab", "cut", "abc", "raw", "a\n"),
		fields("name", "inner", "conf", inner),
		fields("name", "keys", "m", Map{{fields("port", int64(80)), fields("id", "i")}}, "none", Map{}, "list", []any{}, "empty", nil),
		fields("name", "positional", "v", positional),
	}
	for i := range want {
		if diff := cmp.Diff(want[i], cases[i].Value); diff != "" || cases[i].Err != nil {
			t.Errorf("%s: %v\n%s", cases[i].Name, cases[i].Err, diff)
		}
	}
	for i, text := range []string{
		"p_test.go:18: the call os.Getenv cannot be read as data", "p_test.go:19: *ast.FuncLit cannot be read as data", "p_test.go:20: the name nobody cannot be read as data",
	} {
		if c := cases[len(want)+i]; c.Err == nil || c.Err.Error() != text {
			t.Errorf("%v, want %s", c.Err, text)
		}
	}
	if last := cases[len(cases)-1]; last.Name != "9" || last.Pos != "p_test.go:21" {
		t.Errorf("%+v", last)
	}
	if At(cases[2].Value, "conf", "m", "w") != "x" || Text(cases[2].Value, "conf", "a") != "pools.PROXY" || Int(cases[0].Value, "n") != -3 || !Bool(cases[0].Value, "b") ||
		len(List(cases[2].Value, "conf", "b")) != 2 || At(cases[0].Value, "x", "y") != nil {
		t.Error("the fields of a case are not found")
	}
	if _, err := f.Var("loop"); err == nil || !strings.Contains(err.Error(), "refers to itself") {
		t.Error(err)
	}
}

func TestCPOMapTable(t *testing.T) {
	cases, err := function(t, "TestTable").Table("byName")
	got := ""
	for _, c := range cases {
		got += fmt.Sprint(c.Name, Text(c.Value, "key"), Int(c.Value, "value"), " ")
	}
	if err != nil || got != "1a1 2p/key2 " {
		t.Error(got, err)
	}
	if _, err := function(t, "TestTable").Table("shared2"); err == nil {
		t.Error("a table that is not there")
	}
}

func TestCPOSteps(t *testing.T) {
	f := function(t, "TestSteps")
	steps := f.Steps()
	if len(steps) != 3 || steps[0].Call != "run" || steps[0].Args[2] != Symbol("one") || steps[0].Args[3] != true || steps[1].Set != "one.tags" || steps[2].Pos != "p_test.go:32" {
		t.Fatalf("%+v", steps)
	}
	if value, err := steps[1].Value("a,b"); value != "&a,b" || err != nil {
		t.Error(value, err)
	}
	wants := f.Wants("cfg")
	if len(wants) != 2 || strings.Join(wants[0].Path, ".") != "Global.URL" || wants[0].Value != "u" || strings.Join(wants[1].Path, ".") != "LB.Monitor" || wants[1].Value != true {
		t.Errorf("%+v", wants)
	}
	if texts := f.Literals("Read"); !slices.Equal(texts, []string{"text"}) {
		t.Error(texts)
	}
}
