package main

import (
	"os"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
)

func TestReferenceIsFresh(t *testing.T) {
	committed, err := os.ReadFile("../../openstack/REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != reference() {
		t.Error("guests/openstack/REFERENCE.md is stale: run `go generate ./openstack` in guests and commit")
	}
}

// TestNothingIsMissing: each name of cloud-provider-openstack v1.31.2 is in the
// tables. testdata/cpo-v1.31.2.txt was made from its source: see there.
func TestNothingIsMissing(t *testing.T) {
	data, err := os.ReadFile("testdata/cpo-v1.31.2.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, k := range cloudconf.Keys() {
		known["["+k.Section+"] "+k.Name] = true
		if k.Note == "" {
			t.Errorf("[%s] %s has no note", k.Section, k.Name)
		}
	}
	for _, a := range loadbalancer.Annotations() {
		known[a.Name] = true
	}
	text, names := reference(), 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		names++
		if !known[line] {
			t.Errorf("%s is in no table", line)
		}
		_, name, found := strings.Cut(line, "] ")
		if !found {
			name = line
		}
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is not in the reference", line)
		}
	}
	if names < 90 {
		t.Errorf("only %d names in the list", names)
	}
}
