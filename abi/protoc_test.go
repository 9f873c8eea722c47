package abi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// writeVectors writes messages.json with the texts that protoc reads.
func writeVectors(t *testing.T) {
	t.Helper()
	all := vectors(t)
	for i, v := range all {
		if v.Outcome == outcomeMalformed {
			continue
		}
		text, err := protoc(t, "--decode", v.Message, v.bytes(t))
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		all[i].Text = string(text)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// protoc runs a codec that shares nothing with ours but the schema.
func protoc(t *testing.T, direction, message string, input []byte) ([]byte, error) {
	args := []string{direction + "=ccm.v1." + message}
	if direction == "--encode" {
		args = append(args, "--deterministic_output")
	}
	cmd := exec.CommandContext(t.Context(), "protoc", append(args, "ccm_v1.proto")...)
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("protoc (Debian: protobuf-compiler): %w: %s", err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// An independent codec reads and writes the same: the vectors are not only
// what our codec thinks of itself.
func TestVectorsAgainstProtoc(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Fatalf("%v: install protobuf-compiler", err)
	}
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			text, err := protoc(t, "--decode", v.Message, v.bytes(t))
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
			data, err := protoc(t, "--encode", v.Message, []byte(v.Text))
			if err != nil || !bytes.Equal(data, v.bytes(t)) {
				t.Errorf("protoc writes %x, %v, the vector says %s", data, err, v.Hex)
			}
		})
	}
}

// spoken is a message of conversations.json, which package sdk records.
type spoken struct{ Message, Hex string }

type exchange struct {
	Request, Answer spoken
	HostCalls       []exchange
}

func TestConversationsAgainstProtoc(t *testing.T) {
	text, err := os.ReadFile("../testdata/abi/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Ops []exchange }
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d conversations: %v", len(all), err)
	}
	for _, one := range all {
		checkSpoken(t, one.Ops)
	}
}

func checkSpoken(t *testing.T, exchanges []exchange) {
	t.Helper()
	for _, x := range exchanges {
		for _, m := range []spoken{x.Request, x.Answer} {
			if m.Hex == "" {
				continue
			}
			data := vector{Name: m.Message, Hex: m.Hex}.bytes(t)
			text, err := protoc(t, "--decode", m.Message, data)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := protoc(t, "--encode", m.Message, text); err != nil || !bytes.Equal(again, data) {
				t.Errorf("%s %s: protoc writes %x, %v", m.Message, m.Hex, again, err)
			}
		}
		checkSpoken(t, x.HostCalls)
	}
}
