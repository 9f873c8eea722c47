package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// Helm takes the chart of a release for what it would have packed itself.
func TestChartIsWhatHelmPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	binary, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), "../../build/bin"), "helm"))
	if err != nil {
		t.Fatal(err)
	}
	helm := func(args ...string) string {
		said, err := runIn(t, "../..", binary, args...)
		if err != nil {
			t.Fatalf("%v (make helm builds it): %s", err, said)
		}
		return said
	}
	p := packer{version: "v1.2.3", created: time.Unix(1_700_000_000, 0), tree: "../..", out: t.TempDir()}
	if err := p.packChart(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := filepath.Join(p.out, "wasm-ccm-1.2.3.tgz"), t.TempDir()
	helm("package", "--version", "1.2.3", "--app-version", "v1.2.3", "--destination", theirs, chartDir)
	theirs = filepath.Join(theirs, "wasm-ccm-1.2.3.tgz")
	if diff := gocmp.Diff(filesOf(t, theirs), filesOf(t, ours)); diff != "" {
		t.Errorf("files of the chart (-helm +ours):\n%s", diff)
	}
	for _, show := range [][]string{{"show", "chart"}, {"show", "values"}, {"template", "ccm"}} {
		if diff := gocmp.Diff(helm(append(show, theirs)...), helm(append(show, ours)...)); diff != "" {
			t.Errorf("helm %s (-its own +ours):\n%s", show, diff)
		}
	}
	if manifests := helm("template", "ccm", ours); !strings.Contains(manifests, "localhost/wasm-ccm/cloud-controller-manager:v1.2.3") {
		t.Error("the chart of the release has another image than the release")
	}
}

func filesOf(t *testing.T, archive string) []string {
	t.Helper()
	said, err := runIn(t, ".", "tar", "-tzf", archive)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	files := strings.Fields(said)
	slices.Sort(files)
	return files
}
