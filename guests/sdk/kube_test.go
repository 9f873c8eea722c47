package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// pages is a host that answers kube with these pages in order.
type pages struct {
	t       *testing.T
	answers []*abi.KubeResponse // nil: an error
	cursors []string            // of the requests
}

func (p *pages) Now() time.Time      { return time.Time{} }
func (p *pages) Left() time.Duration { return time.Minute }

func (p *pages) HostCall(name string, request []byte) (abi.Code, []byte) {
	var m abi.KubeRequest
	if err := m.UnmarshalVT(request); err != nil || name != abi.CapabilityKube {
		p.t.Fatal(name, err)
	}
	p.cursors = append(p.cursors, string(m.Cursor))
	answer := p.answers[0]
	if p.answers = p.answers[1:]; answer == nil {
		return abi.CodeUnavailable, nil
	}
	data := make([]byte, answer.SizeVT())
	if _, err := answer.MarshalToSizedBufferVT(data); err != nil {
		p.t.Fatal(err)
	}
	return abi.CodeOK, data
}

func nodes(names ...string) (all []*abi.KubeObject) {
	for _, name := range names {
		all = append(all, &abi.KubeObject{Name: name, Uid: "uid-" + name})
	}
	return all
}

func TestKubeCache(t *testing.T) {
	host := &pages{t: t}
	op, cache := sdk.NewOp(host), &sdk.KubeCache{Resource: "nodes"}
	steps := []struct {
		name          string
		answers       []*abi.KubeResponse
		have, cursors string
		fails         bool
	}{
		{"everything", []*abi.KubeResponse{{Objects: nodes("a", "b"), Cursor: []byte("1"), More: true}, {Objects: nodes("c"), Cursor: []byte("2")}}, "a b c", " 1", false},
		{"nothing", []*abi.KubeResponse{{Cursor: []byte("2")}}, "a b c", "2", false},
		{"changes", []*abi.KubeResponse{{Objects: nodes("d"), Deleted: nodes("a"), Cursor: []byte("3")}}, "b c d", "2", false},
		{"an old deletion", []*abi.KubeResponse{{Deleted: []*abi.KubeObject{{Name: "b", Uid: "another"}}, Cursor: []byte("4")}}, "b c d", "3", false},
		{"made again", []*abi.KubeResponse{{Objects: nodes("b"), Deleted: nodes("b"), Cursor: []byte("5")}}, "b c d", "4", false},
		{"an error", []*abi.KubeResponse{nil}, "b c d", "5", true},
		{"an error after a page", []*abi.KubeResponse{{Objects: nodes("e"), Cursor: []byte("6"), More: true}, nil}, "b c d e", "5 6", true},
		{"anew, not wholly", []*abi.KubeResponse{{Objects: nodes("f"), Cursor: []byte("7"), More: true, Restarted: true}, nil}, "b c d e", "6 7", true},
		{"anew", []*abi.KubeResponse{{Objects: nodes("f"), Cursor: []byte("8"), More: true}, {Objects: nodes("g"), Cursor: []byte("9")}}, "f g", " 8", false},
	}
	for _, step := range steps {
		host.answers, host.cursors = step.answers, nil
		if _, err := cache.Sync(op); (err != nil) != step.fails {
			t.Fatalf("%s: %v", step.name, err)
		}
		var have []string
		for _, name := range strings.Fields("a b c d e f g") {
			if cache.Get("", name) != nil {
				have = append(have, name)
			}
		}
		if strings.Join(have, " ") != step.have || strings.Join(host.cursors, " ") != step.cursors || len(cache.All()) != len(have) {
			t.Errorf("%s: it has %q after the cursors %q, want %q after %q", step.name, have, host.cursors, step.have, step.cursors)
		}
	}
}
