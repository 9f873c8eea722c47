package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	recordedFile = "host/status/v1alpha1/types.go"
	recordedList = ".ci/recorded-api.txt"
	recordedType = "package v1alpha1\n\ntype Status struct {\n\tPhase string `json:\"phase,omitempty\"`\n}\n"
)

// TestRecordedAPI runs .ci/check-api.sh in a repository with one package. Its
// apidiff finds nothing, as the real one does when only a tag changes.
func TestRecordedAPI(t *testing.T) {
	with := func(tag string) string { return strings.Replace(recordedType, "phase,omitempty", tag, 1) }
	const name = "Status.Phase: is state,omitempty in JSON, was phase,omitempty; keep it, or say `status.Status.Phase`"
	for _, test := range []struct {
		name, file, text, fails string
	}{
		{"no change", "CHANGELOG.md", "## New\n", ""},
		{"never left out", recordedFile, with("phase"), "Status.Phase: is phase in JSON, was phase,omitempty"},
		{"another JSON name", recordedFile, with("state,omitempty"), name},
		{"inlined", recordedFile, with(",inline"), "Status.Phase: is ,inline in JSON, was phase"},
		{"without a tag", recordedFile, with(""), "Status.Phase: is Phase in JSON, was phase"},
		{"a list of nothing", recordedList, "# nothing\n", "no package to compare"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := recordedRepository(t)
			writeFiles(t, dir, map[string]string{test.file: test.text})
			checkAPI(t, dir, test.fails)
		})
	}
	dir := recordedRepository(t)
	writeFiles(t, dir, map[string]string{recordedFile: with("state"), "CHANGELOG.md": "## New\n\n- `status.Status.Phase` is `state` in JSON.\n"})
	checkAPI(t, dir, "")
	if err := os.Remove(filepath.Join(dir, recordedList)); err != nil {
		t.Fatal(err)
	}
	checkAPI(t, dir, "no package to compare")
}

// A clone without the recorded commit, and without the repository to fetch it from.
func TestRecordedAPIShallow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shallow")
	git(t, ".", "clone", "--quiet", "--depth=1", "file://"+recordedRepository(t), dir)
	git(t, dir, "remote", "remove", "origin")
	checkAPI(t, dir, "")
	t.Setenv("CI", "true")
	checkAPI(t, dir, "NOT COMPARED")
}

// recordedRepository is one whose first commit has the API that its second records.
func recordedRepository(t *testing.T) string {
	t.Helper()
	t.Setenv("CI", "")
	dir := t.TempDir()
	commit := []string{"-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=m"}
	files := map[string]string{recordedFile: recordedType, "CHANGELOG.md": "## New\n"}
	for _, file := range []string{"abi/a", "guests/a", "go.mod", "go.sum"} {
		files[file] = "\n"
	}
	git(t, dir, "init", "--quiet")
	for range 2 {
		writeFiles(t, dir, files)
		git(t, dir, "add", "--all")
		git(t, dir, commit...)
		files = map[string]string{recordedList: "# PACKAGE CHANGELOG COMMIT\n" + filepath.Dir(recordedFile) + " CHANGELOG.md " + git(t, dir, "rev-parse", "HEAD")}
	}
	return dir
}

// checkAPI wants the check to pass, or to fail with these words.
func checkAPI(t *testing.T, dir, fails string) {
	t.Helper()
	script, err := filepath.Abs("../.ci/check-api.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, "/bin/true")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); (err != nil) != (fails != "") || !strings.Contains(string(out), fails) {
		t.Errorf("%v: %swant an error with %q", err, out, fails)
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}
