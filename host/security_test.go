// Package host_test checks that what the documents of the host promise exists.
package host_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every test and script that SECURITY.md names is there, and every claim names
// one.
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
	for _, c := range claims(t, text) {
		if !strings.Contains(c.shownBy, "`") {
			t.Errorf("nothing shows this: %s %s", c.id, c.text)
		}
	}
}

// Each claim of SECURITY.md is named in the code that enforces it, and what
// the code names is a claim.
func TestSecurityIsNamedWhereItIsEnforced(t *testing.T) {
	data, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	enforced := invariants(t, "..")
	for _, c := range claims(t, string(data)) {
		if len(enforced[c.id]) == 0 {
			t.Errorf("no code says that it enforces %s: %s", c.id, c.text)
		}
		delete(enforced, c.id)
	}
	for id, where := range enforced {
		t.Errorf("SECURITY.md has no claim %s, which %s names", id, where)
	}
}

// claim is a line of SECURITY.md.
type claim struct{ id, text, shownBy string }

// claims returns the lines of What holds. Their identifiers are those of their
// section, in order, each once.
func claims(t *testing.T, text string) (all []claim) {
	t.Helper()
	id := regexp.MustCompile(`^([A-Z])([1-9][0-9]*)$`)
	_, text, _ = strings.Cut(text, "## What holds\n")
	text, _, _ = strings.Cut(text, "## What does not hold\n")
	letters, letter, last := "", "", 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "### ") {
			letter, last = "", 0
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| id |") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		parts := id.FindStringSubmatch(cells[0])
		if len(cells) != 3 || parts == nil {
			t.Fatalf("not an identifier, a claim and what shows it: %s", line)
		}
		if letter == "" {
			if letter = parts[1]; strings.Contains(letters, letter) {
				t.Errorf("%s: another section has this letter", cells[0])
			}
			letters += letter
		}
		number, _ := strconv.Atoi(parts[2]) // it matched
		if parts[1] != letter || number <= last {
			t.Errorf("%s does not follow %s%d", cells[0], letter, last)
		}
		last = number
		all = append(all, claim{cells[0], cells[1], cells[2]})
	}
	if len(all) < 60 {
		t.Fatalf("only %d claims", len(all))
	}
	return all
}

// invariants returns which files name which claims: Go files that are no tests,
// and manifests.
func invariants(t *testing.T, root string) map[string][]string {
	t.Helper()
	form := regexp.MustCompile(`^\s*(?://|#) Invariant ([A-Z][0-9]+) \(host/SECURITY\.md\): \S`)
	attempt := regexp.MustCompile(`(?i)^\s*(?://|#).*\binvariant,? [A-Z][0-9]+\b`)
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "build" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".." {
				return fs.SkipDir
			}
			return nil
		}
		manifest := filepath.Ext(path) == ".yaml" && strings.HasPrefix(path, filepath.Join(root, "deploy"))
		if !manifest && (filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go")) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if id := form.FindStringSubmatch(line); id != nil {
				found[id[1]] = append(found[id[1]], path)
			} else if attempt.MatchString(line) {
				t.Errorf("%s: %q is not of the form // Invariant G1 (host/SECURITY.md): what must stay true.", path, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// hasTest looks for a test in a package, which is named by its room, by the end
// of its path below host/, or by its path from the repository's root.
func hasTest(t *testing.T, room, name string) bool {
	t.Helper()
	re := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, dir := range rooms(t, room) {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
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

// rooms are the directories that a name of a package may mean.
func rooms(t *testing.T, name string) []string {
	t.Helper()
	found := []string{filepath.Join("..", name)}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (path == name || strings.HasSuffix(path, "/"+name)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
