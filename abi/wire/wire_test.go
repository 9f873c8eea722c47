package wire_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

func TestUnmarshalResets(t *testing.T) {
	m := &abi.Done{Done: true}
	if err := wire.Unmarshal(nil, m); err != nil || m.Done {
		t.Errorf("Unmarshal = %v, %v, want an empty message", m.Done, err)
	}
}

func TestUnmarshalKeepsNothing(t *testing.T) {
	data := []byte("\x0a\x03abc")
	m := new(abi.ErrorDetail)
	if err := wire.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	data[2] = 'x'
	if m.Message != "abc" {
		t.Errorf("the message is %q after its bytes changed, want abc", m.Message)
	}
}

func TestUnmarshalChecks(t *testing.T) {
	many := bytes.Repeat([]byte{0x78, 0x00}, wire.MaxFields+1)
	atLimit := bytes.Repeat([]byte{0x78, 0x00}, wire.MaxFields)
	nested := new(bytes.Buffer)
	nested.Write([]byte{0x0a, 0x82, 0x80, 0x20}) // the field metadata and its length
	nested.Write(bytes.Repeat([]byte{0x78, 0x00}, wire.MaxFields+1))
	tests := map[string]struct {
		message abi.Message
		data    []byte
		err     string
	}{
		"utf8 in a string":       {new(abi.ErrorDetail), []byte("\x0a\x02\xc3("), "ErrorDetail: field Message is not valid UTF-8"},
		"utf8 in a list":         {new(abi.ConfigureResponse), []byte("\x22\x01\xff"), "field Warnings is not valid UTF-8"},
		"utf8 in a map key":      {new(abi.VolumeLabelsResponse), []byte("\x0a\x03\x0a\x01\xff"), "field Labels: field key is not valid UTF-8"},
		"utf8 in a map value":    {new(abi.VolumeLabelsResponse), []byte("\x0a\x03\x12\x01\xff"), "field Labels: field value is not valid UTF-8"},
		"utf8 in a message":      {new(abi.InstanceMetadataResponse), []byte("\x0a\x03\x22\x01\xff"), "field Metadata: field Zone is not valid UTF-8"},
		"bytes are not text":     {new(abi.CacheValue), []byte("\x0a\x01\xff"), ""},
		"unknown is not text":    {new(abi.Done), []byte("\x12\x01\xff"), ""},
		"a group is not text":    {new(abi.ErrorDetail), []byte("\x1b\x0a\x01\xff\x1c"), ""},
		"group without start":    {new(abi.ErrorDetail), []byte("\x1c\x0a\x01\xff"), "a group ends that did not start"},
		"group without end":      {new(abi.ErrorDetail), []byte("\x1b\x0a\x01\xff"), "unexpected EOF"},
		"too many fields":        {new(abi.RouteListResponse), many, "more than 262144 fields"},
		"as many as allowed":     {new(abi.RouteListResponse), atLimit, ""},
		"too many nested fields": {new(abi.InstanceMetadataResponse), nested.Bytes(), "field Metadata: more than 262144 fields"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := wire.Unmarshal(test.data, test.message)
			if test.err == "" && err != nil {
				t.Fatalf("error %v, want none", err)
			}
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("error %v, want one with %q", err, test.err)
			}
		})
	}
}

// Unmarshal refuses whatever the codec refuses, and what it accepts is what
// the codec reads.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("\x0a\x03\x22\x01\xff"))
	f.Add([]byte("\x0a\x07\x32\x05\x0a\x01a\x12\x00"))
	f.Add([]byte("\x1b\x0a\x01\xff\x1c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := new(abi.InstanceMetadataResponse), new(abi.InstanceMetadataResponse)
		err, codecErr := wire.Unmarshal(data, got), want.UnmarshalVT(data)
		if err == nil && (codecErr != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%x: accepted, the codec says %v", data, codecErr)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	metadata := &abi.InstanceMetadata{ProviderId: "static://m1", InstanceType: "metal", Zone: "z", Region: "r"}
	plain, _ := wire.Marshal(&abi.InstanceMetadataResponse{Metadata: metadata})
	metadata.Zone = "zürich"
	text, _ := wire.Marshal(&abi.InstanceMetadataResponse{Metadata: metadata})
	for name, data := range map[string][]byte{"ascii": plain, "utf8": text} {
		b.Run(name, func(b *testing.B) {
			m := new(abi.InstanceMetadataResponse)
			for b.Loop() {
				if err := wire.Unmarshal(data, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	request, err := wire.Marshal(&abi.LoadBalancerRequest{ClusterName: "c", Service: &abi.Service{Namespace: "shop", Name: "wéb", Uid: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		data []byte
		path []uint64
		want string
	}{
		{request, []uint64{1}, "c"},
		{request, []uint64{2, 1}, "shop"},
		{request, []uint64{2, 2}, "wéb"},
		{request, []uint64{2, 9}, ""},
		{request, []uint64{3, 1}, ""},
		{request[:len(request)-1], []uint64{1}, ""},
		{[]byte("\x08\x01\x0a\x01a\x0a\x01b"), []uint64{1}, "b"}, // as decoders: a number is no text, the last one holds
		{nil, []uint64{1}, ""},
	} {
		if got := string(wire.Find(test.data, test.path...)); got != test.want {
			t.Errorf("%q, %d: %q, want %q", test.data, test.path, got, test.want)
		}
	}
}
