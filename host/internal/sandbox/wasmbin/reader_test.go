package wasmbin_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// wants checks that an error is there exactly if want is, and contains it.
func wants(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestU32(t *testing.T) {
	for name, c := range map[string]struct {
		data     string
		value    uint32
		err      string
		errShort string // of ShortU32
	}{
		"zero":                   {"\x00", 0, "", ""},
		"one byte":               {"\x7f", 127, "", ""},
		"two bytes":              {"\x80\x01", 128, "", ""},
		"largest":                {"\xff\xff\xff\xff\x0f", math.MaxUint32, "", ""},
		"padded to two bytes":    {"\x80\x00", 0, "", "is padded"},
		"padded to five bytes":   {"\x83\x80\x80\x80\x00", 3, "", "is padded"},
		"padded to six bytes":    {"\x83\x80\x80\x80\x80\x00", 0, "number too long", "number too long"},
		"33 bits":                {"\xff\xff\xff\xff\x1f", 0, "out of range", "out of range"},
		"bits where none may be": {"\x80\x80\x80\x80\x70", 0, "out of range", "out of range"},
		"empty":                  {"", 0, "unexpected end", "unexpected end"},
		"cut":                    {"\x80", 0, "unexpected end", "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &wasmbin.Reader{Data: []byte(c.data)}
			if got := r.U32(); got != c.value {
				t.Errorf("%d, want %d", got, c.value)
			}
			wants(t, r.Done(""), c.err)
			short := &wasmbin.Reader{Data: []byte(c.data)}
			short.ShortU32("number of the test")
			wants(t, short.Err, c.errShort)
		})
	}
}

func TestSigned(t *testing.T) {
	for name, c := range map[string]struct {
		bits  uint
		data  string
		value int64
		err   string
	}{
		"zero":                    {32, "\x00", 0, ""},
		"minus one":               {32, "\x7f", -1, ""},
		"63":                      {32, "\x3f", 63, ""},
		"64 needs two bytes":      {32, "\xc0\x00", 64, ""},
		"minus one, padded":       {32, "\xff\xff\xff\xff\x7f", -1, ""},
		"zero, padded":            {32, "\x80\x80\x80\x80\x00", 0, ""},
		"largest of 32":           {32, "\xff\xff\xff\xff\x07", math.MaxInt32, ""},
		"smallest of 32":          {32, "\x80\x80\x80\x80\x78", math.MinInt32, ""},
		"above 32":                {32, "\xff\xff\xff\xff\x0f", 0, "out of range"},
		"below 32":                {32, "\x80\x80\x80\x80\x70", 0, "out of range"},
		"wrong sign":              {32, "\xff\xff\xff\xff\x4f", 0, "out of range"},
		"six bytes":               {32, "\x80\x80\x80\x80\x80\x00", 0, "number too long"},
		"largest of 33":           {33, "\xff\xff\xff\xff\x0f", math.MaxUint32, ""},
		"above 33":                {33, "\xff\xff\xff\xff\x1f", 0, "out of range"},
		"largest of 64":           {64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", math.MaxInt64, ""},
		"smallest of 64":          {64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", math.MinInt64, ""},
		"minus one of 64, padded": {64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", -1, ""},
		"above 64":                {64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, "out of range"},
		"eleven bytes":            {64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0, "number too long"},
		"cut":                     {64, "\xff\xff", 0, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &wasmbin.Reader{Data: []byte(c.data)}
			if got := r.Signed(c.bits); r.Err == nil && got != c.value {
				t.Errorf("%d, want %d", got, c.value)
			}
			wants(t, r.Err, c.err)
		})
	}
}

func TestNumbersRoundTrip(t *testing.T) {
	for shift := range 64 {
		for _, offset := range []int64{-1, 0, 1} {
			n := int64(1)<<shift + offset
			for _, n := range []int64{n, -n} {
				data := wasmbin.AppendSigned(nil, n)
				if got := (&wasmbin.Reader{Data: data}).Signed(64); got != n {
					t.Errorf("%d is written and read as %d", n, got)
				}
			}
			u := uint32(n)
			if got := (&wasmbin.Reader{Data: wasmbin.AppendU32(nil, u)}).ShortU32(""); got != u {
				t.Errorf("%d is written and read as %d", u, got)
			}
		}
	}
}

func TestReaderBounds(t *testing.T) {
	r := &wasmbin.Reader{Data: []byte("\x05abc"), Base: 100}
	if part := r.Part(r.U32()); part.Err == nil || part.More() {
		t.Errorf("a part of 5 bytes where there are 3: %v", part.Err)
	}
	wants(t, r.Err, "at byte 101: unexpected end")
	if r.Byte() != 0 || r.U32() != 0 || r.Bytes(1) != nil || r.Pos != 1 {
		t.Error("it reads on behind an error")
	}
	wants(t, (&wasmbin.Reader{Data: []byte("ab")}).Done("test"), "2 bytes left over")

	count := &wasmbin.Reader{Data: []byte("\x03ab")}
	count.Count("things", 10)
	wants(t, count.Err, "unexpected end in things")
	many := &wasmbin.Reader{Data: append([]byte{11}, make([]byte, 20)...)}
	many.Count("things", 10)
	wants(t, many.Err, "11 things, at most 10 are allowed")
}

func TestNames(t *testing.T) {
	for data, want := range map[string]string{
		"\x02\xc3\xa4":     "",
		"\x80\x00":         "", // its length may be padded
		"\x01\xff":         "not UTF-8",
		"\x03\xed\xa0\x80": "not UTF-8", // a surrogate
		"\x02\xc0\x80":     "not UTF-8", // overlong
		"\x02a":            "unexpected end",
	} {
		r := &wasmbin.Reader{Data: []byte(data)}
		name := r.Name()
		wants(t, r.Err, want)
		if want == "" && !bytes.HasSuffix([]byte(data), name) {
			t.Errorf("%q is read as %q", data, name)
		}
	}
}
