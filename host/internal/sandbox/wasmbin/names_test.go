package wasmbin_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// named is a module of two functions with these custom sections called "name".
func named(sections ...string) []byte {
	wasm := slices.Concat(wasmbin.Header(), []byte("\x01\x04\x01\x60\x00\x00\x03\x03\x02\x00\x00\x0a\x07\x02\x02\x00\x0b\x02\x00\x0b"))
	for _, s := range sections {
		content := "\x04name" + s
		wasm = append(wasmbin.AppendU32(append(wasm, 0), uint32(len(content))), content...)
	}
	return wasm
}

// subsection has an id and its size.
func subsection(id byte, content string) string {
	return string(wasmbin.AppendU32([]byte{id}, uint32(len(content)))) + content
}

func TestFunctionNames(t *testing.T) {
	long := strings.Repeat("ö", 800)
	for name, c := range map[string]struct {
		sections []string
		want     [2]string
		err      string
	}{
		"none":               {nil, [2]string{}, ""},
		"empty":              {[]string{""}, [2]string{}, ""},
		"both":               {[]string{subsection(1, "\x02\x00\x01a\x01\x02bc")}, [2]string{"a", "bc"}, ""},
		"one":                {[]string{subsection(1, "\x01\x01\x02bc")}, [2]string{"", "bc"}, ""},
		"beside others":      {[]string{subsection(0, "\x01m") + subsection(1, "\x01\x00\x01a") + subsection(2, "\xff")}, [2]string{"a", ""}, ""},
		"padded":             {[]string{subsection(1, "\x81\x80\x80\x80\x00\x80\x00\x81\x00a")}, [2]string{"a", ""}, ""},
		"long":               {[]string{subsection(1, "\x01\x00"+string(wasmbin.AppendU32(nil, uint32(len(long))))+long)}, [2]string{long[:256], ""}, ""},
		"two sections":       {[]string{subsection(1, "\x01\x00\x01a"), subsection(1, "\x01\x00\x01b")}, [2]string{}, "stands twice"},
		"two subsections":    {[]string{subsection(1, "\x01\x00\x01a") + subsection(1, "\x01\x00\x01b")}, [2]string{}, "stands twice or out of order"},
		"out of order":       {[]string{subsection(2, "") + subsection(1, "\x01\x00\x01a")}, [2]string{}, "out of order"},
		"no such function":   {[]string{subsection(1, "\x01\x02\x01a")}, [2]string{}, "does not exist"},
		"too many":           {[]string{subsection(1, "\x03\x00\x01a\x01\x01b\x02\x01c")}, [2]string{}, "at most 2"},
		"two names":          {[]string{subsection(1, "\x02\x00\x01a\x00\x01b")}, [2]string{}, "two names"},
		"descending":         {[]string{subsection(1, "\x02\x01\x01a\x00\x01b")}, [2]string{}, "out of order"},
		"not UTF-8":          {[]string{subsection(1, "\x01\x00\x01\xff")}, [2]string{}, "not UTF-8"},
		"cut":                {[]string{subsection(1, "\x02\x00\x01a\x01\x02b")}, [2]string{}, "unexpected end"},
		"cut subsection":     {[]string{"\x01\x20\x01"}, [2]string{}, "unexpected end"},
		"left over":          {[]string{subsection(1, "\x01\x00\x01abc")}, [2]string{}, "left over"},
		"behind the last":    {[]string{subsection(1, "\x01\x00\x01a") + "\x02"}, [2]string{}, "unexpected end"},
		"too large":          {[]string{subsection(1, "\x01\x00"+strings.Repeat("x", wasmbin.MaxNamesBytes))}, [2]string{}, "at most 1048576"},
		"number of 2^32":     {[]string{subsection(1, "\xff\xff\xff\xff\x0f")}, [2]string{}, "at most 2"},
		"size of 4 GiB":      {[]string{"\x01\xff\xff\xff\xff\x0f"}, [2]string{}, "unexpected end"},
		"another name":       {nil, [2]string{}, ""},
		"control characters": {[]string{subsection(1, "\x01\x00\x02\x1b\n")}, [2]string{"\x1b\n", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := named(c.sections...)
			m, err := wasmbin.Parse(wasm)
			if err != nil {
				t.Fatal(err)
			}
			names, err := m.FunctionNames()
			wants(t, err, c.err)
			clear(wasm) // nothing of it is kept
			if got := [2]string{names.Of(0), names.Of(1)}; got != c.want || names.Of(2) != "" {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// FuzzFunctionNames: whatever stands there, the module is the same, and what is
// taken of it is text within bounds.
func FuzzFunctionNames(f *testing.F) {
	f.Add([]byte(subsection(0, "\x01m") + subsection(1, "\x02\x00\x01a\x01\x02bc") + subsection(2, "")))
	f.Add([]byte(subsection(1, "\x81\x80\x80\x80\x00\x80\x00\x81\x00a")))
	f.Add([]byte("\x01\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, section []byte) {
		m, err := wasmbin.Parse(named(string(section)))
		if err != nil {
			t.Fatal(err)
		}
		names, err := m.FunctionNames()
		for i := range uint32(3) {
			name := names.Of(i)
			if len(name) > 256 || !utf8.ValidString(name) || err != nil && name != "" {
				t.Errorf("function %d is called %q, %v", i, name, err)
			}
			if name != "" && len(name) < 256 && !bytes.Contains(section, []byte(name)) {
				t.Errorf("function %d is called %q", i, name)
			}
		}
	})
}
