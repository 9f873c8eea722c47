//go:build toolchain

package abi_test

import (
	"bytes"
	"os/exec"
	"testing"
)

// An independent codec reads and writes the same: the vectors are not only
// what our codec thinks of itself. It needs protoc, so it stands behind a
// build tag, which `make check` sets.
func TestVectorsAgainstProtoc(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Fatalf("%v: install protobuf-compiler", err)
	}
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			text, err := protoc("--decode", v.Message, v.bytes(t))
			if v.Outcome == outcomeMalformed {
				if (err == nil) != v.OthersAccept {
					t.Errorf("protoc says %v, othersAccept is %v", err, v.OthersAccept)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != v.Text {
				t.Errorf("protoc reads %q, the vector says %q", text, v.Text)
			}
			if !v.Canonical {
				return
			}
			data, err := protoc("--encode", v.Message, []byte(v.Text))
			if err != nil || !bytes.Equal(data, v.bytes(t)) {
				t.Errorf("protoc writes %x, %v, the vector says %s", data, err, v.Hex)
			}
		})
	}
}
