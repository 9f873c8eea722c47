package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/gomodules"
)

// The tags name the same commit whenever it is made, and the branch stays.
func TestTagsOfTheGoModules(t *testing.T) {
	t.Chdir(repository(t, "cp -r "+top(t)+"/abi "+top(t)+"/guests "+top(t)+"/LICENSE . && git add . && git commit -q -m second"))
	s, err := readSource(t.Context(), "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.versionModules(t.Context(), t.TempDir(), t.TempDir(), "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_AUTHOR_DATE", "1700000000 +0100")
	again, err := s.versionModules(t.Context(), t.TempDir(), t.TempDir(), "v0.2.0")
	if err != nil || again != first {
		t.Errorf("the second time %v, %v, the first time %v", again, err, first)
	}
	if err := first.tag(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tag := range gomodules.Tags("v0.2.0") {
		goMod, err := git(t.Context(), nil, "show", tag+":"+strings.TrimSuffix(tag, "/v0.2.0")+"/go.mod")
		if err != nil || strings.Contains(goMod, "replace") || strings.Contains(goMod, "00010101000000") {
			t.Errorf("%s: %v\n%s", tag, err, goMod)
		}
	}
	if head, err := git(t.Context(), nil, "rev-parse", "HEAD"); err != nil || head != s.commit {
		t.Errorf("the branch moved to %s, %v", head, err)
	}
	if err := command(context.WithoutCancel(t.Context()), ".", nil, "git", "tag", "-f", "abi/v0.2.0", "HEAD"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.versionModules(t.Context(), t.TempDir(), t.TempDir(), "v0.2.0"); err == nil || !strings.Contains(err.Error(), "the tag abi/v0.2.0 is of commit") {
		t.Errorf("another tag of that name: %v", err)
	}
}

func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
