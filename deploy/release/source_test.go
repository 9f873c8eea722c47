package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing is built before these are refused: there is nothing to build.
func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	tests := map[string]struct {
		prepare string
		args    []string
		err     string
	}{
		"no version":         {"", nil, `the version "" is none of a release`},
		"no v":               {"", []string{"-version", "0.2.0"}, "make release VERSION=v0.2.0"},
		"two numbers":        {"", []string{"-version", "v0.2"}, "semantic version"},
		"development":        {"", []string{"-version", "v0.1.0-dev+abc"}, "without +"},
		"changed file":       {"echo x >file", []string{"-version", "v0.2.0"}, "dirty, so nobody could make this release again: commit or remove these:\nM file"},
		"file of nobody":     {"touch other", []string{"-version", "v0.2.0"}, "?? other"},
		"tag of another":     {"git tag v0.2.0 && git commit -q --allow-empty -m other", []string{"-version", "v0.2.0"}, "the tag v0.2.0 is of commit"},
		"no key":             {"", []string{"-version", "v0.2.0", "-key", "/nonexistent"}, "ccmctl generate-key-pair"},
		"a key that is none": {"", []string{"-version", "v0.2.0", "-key", "file"}, "the key file cannot be read"},
		"surplus argument":   {"", []string{"x"}, `unexpected argument "x"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Chdir(repository(t, test.prepare))
			err := run(t.Context(), test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if _, err := os.Stat("build"); !os.IsNotExist(err) {
				t.Errorf("something was built: %v", err)
			}
		})
	}
}

// Only what is committed gets into a release, wherever the command runs.
func TestExportHasTheFilesOfTheCommit(t *testing.T) {
	dir := repository(t, "mkdir sub && touch sub/ignored && echo /sub >.git/info/exclude && git tag v0.2.0")
	t.Chdir(filepath.Join(dir, "sub"))
	s, err := readSource(t.Context(), "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	if s.created.Unix() != 1_600_000_000 || len(s.commit) != 40 {
		t.Errorf("commit %s of %s", s.commit, s.created)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := s.export(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(tree)
	if err != nil || len(entries) != 1 || entries[0].Name() != "file" {
		t.Errorf("exported %v, %v", entries, err)
	}
}

func repository(t *testing.T, prepare string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "somebody")
		t.Setenv("GIT_"+who+"_EMAIL", "somebody@example.com")
		t.Setenv("GIT_"+who+"_DATE", "1600000000 +0300")
	}
	script := "git init -q && echo content >file && git add file && git commit -q -m first && " + prepare
	if err := command(context.WithoutCancel(t.Context()), dir, nil, "sh", "-ec", strings.TrimSuffix(script, " && ")); err != nil {
		t.Fatal(err)
	}
	return dir
}
