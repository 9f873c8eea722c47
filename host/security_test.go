// Package host_test checks that what the documents of the host promise exists.
package host_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test and script that SECURITY.md names is there, and every line that
// claims something names one.
func TestSecurityNamesTestsThatExist(t *testing.T) {
	data, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	named := regexp.MustCompile("`([./a-z0-9-]+): ((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(text, -1)
	if len(named) < 40 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, n := range named {
		if !hasTest(t, n[1], n[2]) {
			t.Errorf("%s has no %s", n[1], n[2])
		}
	}
	for _, n := range regexp.MustCompile("script `([a-z_]+)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("../testdata/script", n[1]+".txtar")); err != nil {
			t.Error(err)
		}
	}
	_, claims, _ := strings.Cut(text, "## What holds\n")
	claims, _, _ = strings.Cut(claims, "## What does not hold\n")
	for line := range strings.Lines(claims) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| claim") {
			continue
		}
		if cells := strings.Split(line, " | "); len(cells) != 2 || !strings.Contains(cells[1], "`") {
			t.Errorf("nothing shows this: %s", line)
		}
	}
}

// hasTest looks in the directory, or in those below host/ that are meant by a
// path from the repository's root.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	re := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, base := range []string{dir, filepath.Join("..", dir)} {
		files, err := filepath.Glob(filepath.Join(base, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if re.Match(data) {
				return true
			}
		}
	}
	return false
}
