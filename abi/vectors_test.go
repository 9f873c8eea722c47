package abi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

var update = flag.Bool("update", false, "write testdata/abi instead of comparing with it (needs protoc)")

const vectorFile = "../testdata/abi/messages.json"

// vector is one entry of messages.json; testdata/abi/README.md explains it.
type vector struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Hex     string `json:"hex"`
	Outcome string `json:"outcome"`
	Text    string `json:"text,omitempty"`
	// Canonical: an encoder makes exactly these bytes of the text.
	Canonical bool `json:"canonical,omitempty"`
	// OthersAccept: a protobuf decoder may accept it, the host does not.
	OthersAccept bool   `json:"othersAccept,omitempty"`
	Why          string `json:"why,omitempty"`

	value abi.Message // of the canonical ones
}

const (
	outcomeOK        = "ok"
	outcomeRefused   = "refused"
	outcomeMalformed = "malformed"
)

func (v vector) bytes(t *testing.T) []byte {
	t.Helper()
	data, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatalf("vector %s: %v", v.Name, err)
	}
	return data
}

// vectors makes all vectors anew, without their text.
func vectors(t *testing.T) []vector {
	t.Helper()
	var all []vector
	for _, v := range append(fullVectors(), valueVectors()...) {
		v.Message = reflect.TypeOf(v.value).Elem().Name()
		v.Hex, v.Canonical = hex.EncodeToString(marshal(t, v.value)), true
		all = append(all, v)
	}
	return append(append(all, laxVectors()...), malformedVectors()...)
}

func marshal(t *testing.T, m abi.Message) []byte {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if n, err := m.MarshalToSizedBufferVT(data); err != nil || n != len(data) {
		t.Fatalf("%T: marshalled %d of %d bytes: %v", m, n, len(data), err)
	}
	return data
}

// equal compares what is encoded, where absent and empty bytes are the same.
func equal(t *testing.T, a, b abi.Message) bool {
	t.Helper()
	one, err := wire.Marshal(a)
	other, otherErr := wire.Marshal(b)
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && bytes.Equal(one, other)
}

// newMessage makes an empty message by its name in ccm_v1.proto.
func newMessage(t *testing.T, name string) abi.Message {
	t.Helper()
	for _, m := range messages() {
		if reflect.TypeOf(m).Elem().Name() == name {
			return m
		}
	}
	t.Fatalf("messages() in messages_test.go lacks %s, add it", name)
	return nil
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The file holds what the codec makes of the values, so that a change of the
// wire format cannot pass unseen.
func TestVectorsAreCurrent(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	stored, made := readVectors(t), vectors(t)
	if len(stored) != len(made) {
		t.Fatalf("%s has %d vectors, the generator makes %d: run go test . -update", vectorFile, len(stored), len(made))
	}
	names := map[string]bool{}
	for i, want := range made {
		got := stored[i]
		want.Text, want.value = got.Text, nil // TestVectorsAgainstProtoc compares the texts
		if got != want {
			t.Errorf("%s: stored %+v\nmade %+v\nif that is meant: go test . -update", want.Name, got, want)
		}
		if names[want.Name] {
			t.Errorf("%s: two vectors have this name", want.Name)
		}
		names[want.Name] = true
	}
}

func TestVectors(t *testing.T) {
	made := vectors(t)
	for i, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got := newMessage(t, v.Message)
			err := wire.Unmarshal(v.bytes(t), got)
			if malformed := v.Outcome == outcomeMalformed; (err != nil) != malformed {
				t.Fatalf("decoding says %v, want %s", err, v.Outcome)
			}
			if v.Canonical && !equal(t, got, made[i].value) {
				t.Errorf("decoded %+v, want %+v", got, made[i].value)
			}
			if v.Canonical && !bytes.Equal(marshal(t, got), v.bytes(t)) {
				t.Errorf("encoding again gives %x, want %s", marshal(t, got), v.Hex)
			}
		})
	}
}

// What truncation leaves of a message is never read beyond its end, and the
// host refuses it or reads whole fields.
func TestTruncatedVectors(t *testing.T) {
	for _, v := range vectors(t) {
		if v.Outcome == outcomeMalformed {
			continue
		}
		data := v.bytes(t)
		for n := range data {
			m := newMessage(t, v.Message)
			if err := wire.Unmarshal(data[:n:n], m); err == nil && m.SizeVT() > n+unknownSlack {
				t.Errorf("%s: %d bytes became a message of %d", v.Name, n, m.SizeVT())
			}
		}
	}
}

// unknownSlack is what an encoder may add to a message that came from an
// encoder with other habits: the key or value that a map entry left out.
const unknownSlack = 4

func TestEveryMessageHasVectors(t *testing.T) {
	proto, err := os.ReadFile("ccm_v1.proto")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, v := range readVectors(t) {
		have[v.Message] = true
	}
	declared := regexp.MustCompile(`(?m)^message (\w+)`).FindAllSubmatch(proto, -1)
	if len(declared) == 0 {
		t.Fatal("no message found in ccm_v1.proto")
	}
	for _, m := range declared {
		if !have[string(m[1])] {
			t.Errorf("no vector of message %s, add it to messages() and run go test . -update", m[1])
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, v := range readVectors(f) {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range messages() {
			if err := m.UnmarshalVT(data); err != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(m).Elem()).Interface().(abi.Message)
			if err := again.UnmarshalVT(marshal(t, m)); err != nil || !equal(t, m, again) {
				t.Fatalf("%T of %x does not survive encoding: %v", m, data, err)
			}
		}
	})
}
