package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is generated is what is in the chart.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Chdir("../..")
	files, err := generate("deploy/chart")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile("deploy/chart/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: run make chart (-made +there):\n%s", name, diff)
		}
	}
}

// Every value says what it is for, but for those whose name is their meaning.
func TestEveryValueOfTheChartIsDescribed(t *testing.T) {
	t.Chdir("../..")
	schema, err := schemaOf()
	if err != nil {
		t.Fatal(err)
	}
	evident := map[string]bool{"enabled": true, "repository": true, "pullPolicy": true, "port": true, "interval": true, "labels": true}
	for _, r := range rows(schema, nil) {
		if r.about == "" && !isProvider(r.path) && !evident[last(r.path)] {
			t.Errorf("%s has no comment", r.path)
		}
	}
}

// isProvider is for what the HostConfiguration's own types describe.
func isProvider(path string) bool {
	return strings.Contains(path, "[].") || strings.HasPrefix(path, "deletionBrake.") || strings.HasPrefix(path, "cloudProviders.") || strings.HasPrefix(path, "tracing.")
}

// A type that several values have is described at the first, and the others refer to it.
func TestTypesAreDescribedOnce(t *testing.T) {
	t.Chdir("../..")
	schema, err := schemaOf()
	if err != nil {
		t.Fatal(err)
	}
	got := list(rows(schema, nil))
	if n := strings.Count(got, "`pullPolicy`: When the registry"); n != 1 {
		t.Errorf("the sources of providers and of signers are described %d times:\n%s", n, got)
	}
	if !strings.Contains(got, "`source`: Where the signer's module comes from; it differs from the provider's. Fields as in `providers[].source`.\n") {
		t.Errorf("the source of a signer does not refer to that of a provider:\n%s", got)
	}
}
