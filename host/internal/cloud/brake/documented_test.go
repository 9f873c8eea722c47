package brake_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// page reads one of the repository.
func page(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// share is how many of so many Nodes may go at once, and in half an hour.
func share(t *testing.T, nodes string) (once, later string) {
	t.Helper()
	size, err := strconv.Atoi(nodes)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, size, 0)
	if _, err := c.InstanceMetadata(t.Context(), c.node("n000")); err != nil {
		t.Fatal(err)
	}
	s := c.Status()
	return fmt.Sprint(s.Burst), fmt.Sprint(s.Refill)
}

// What the pages say of the share that may go is what the brake does, in small
// clusters, too.
func TestDocumentedShares(t *testing.T) {
	said := regexp.MustCompile(`\[(\d+) of (\d+), (\d+) of (\d+)\]`).FindStringSubmatch(page(t, "README.md"))
	if said == nil {
		t.Fatal("README.md has no example of the share")
	}
	for _, one := range [][]string{said[1:3], said[3:]} {
		if once, _ := share(t, one[1]); once != one[0] {
			t.Errorf("README.md says %s of %s, the brake %s", one[0], one[1], once)
		}
	}
	rows := regexp.MustCompile(`(?m)^ *\| (\d+)(?: to (\d+))? \| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(page(t, "deploy/docs/node-deletion.md"), -1)
	for _, row := range rows {
		for _, nodes := range row[1:3] {
			if nodes == "" {
				continue
			}
			if once, later := share(t, nodes); once != row[3] || later != row[4] {
				t.Errorf("node-deletion.md says of %s Nodes %s and %s, the brake %s and %s", nodes, row[3], row[4], once, later)
			}
		}
	}
	if len(rows) < 5 {
		t.Errorf("node-deletion.md has %d rows", len(rows))
	}
}

// No page has the share without what bounds it in small clusters.
func TestNoPageSaysATenth(t *testing.T) {
	short := regexp.MustCompile(`(?i)(tenth|10 ?%) of (your|the|its|all) (Nodes|cluster)|a tenth (of them )?(is|are|at once)`)
	whole := regexp.MustCompile(`(?s)^.{0,160}(\b3\b|100 Nodes|third)`)
	limits, pages := shipped(), 0
	err := filepath.WalkDir("../../../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "build" || entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		pages++
		data, err := os.ReadFile(path)
		text := string(data)
		for _, at := range short.FindAllStringIndex(text, -1) {
			if around := text[max(0, at[0]-20):]; !whole.MatchString(around) {
				t.Errorf("%s: %.60q", path, around)
			}
		}
		return err
	})
	if err != nil || pages < 30 {
		t.Errorf("%v, %d pages", err, pages)
	}
	for _, path := range []string{"host/SECURITY.md", "host/internal/cloud/brake/RATIONALE.md"} {
		if rule := fmt.Sprintf("%d %% (or %d)", limits.Percent, limits.Nodes); !strings.Contains(page(t, path), rule) {
			t.Errorf("%s does not say %q", path, rule)
		}
	}
}
