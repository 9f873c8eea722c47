package deploy_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks: each relative link of each page leads to a file, and to a heading of
// it, as GitHub names headings.
func TestLinks(t *testing.T) {
	found := 0
	for _, page := range pages(t) {
		text := codeSpan.ReplaceAllString(fence.ReplaceAllString(read(t, page), ""), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			found++
			if err := follow(t, page, match[1]); err != nil {
				t.Errorf("%s: (%s): %v", page, match[1], err)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links: are they read rightly?", found)
	}
}

// TestPagesAreFound: one reaches each page from the README of the repository by
// links alone.
func TestPagesAreFound(t *testing.T) {
	reached := map[string]bool{}
	for next := []string{filepath.Join("..", "README.md")}; len(next) > 0; next = next[1:] {
		page := next[0]
		if reached[page] || filepath.Ext(page) != ".md" {
			continue
		}
		reached[page] = true
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			if to, _, _ := strings.Cut(match[1], "#"); to != "" && !strings.Contains(to, "://") {
				next = append(next, filepath.Join(filepath.Dir(page), to))
			}
		}
	}
	for _, page := range pages(t) {
		if !reached[page] {
			t.Errorf("no page that one finds from README.md links to %s", page)
		}
	}
}

// TestPagesOfTasks: a page for a task says what one needs, what can go wrong, and
// how to go back, and shows what one sees.
func TestPagesOfTasks(t *testing.T) {
	for _, task := range []string{"install", "bare-metal", "move-from-native", "two-clouds", "upgrade", "roll-back", "uninstall"} {
		text := read(t, filepath.Join("docs", task+".md"))
		for _, part := range []string{"\n**What you need**: ", "\n## What can go wrong\n", "\n## How to go back\n", "\n```\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s.md has no %q", task, part)
			}
		}
	}
}

// pages are all of the repository, from here.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == filepath.Join("..", "build") || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			// From "..", a page of this folder is ../deploy/PAGE.
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) < 30 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

// follow looks whether there is what a page links to.
func follow(t *testing.T, page, to string) error {
	t.Helper()
	file, anchor, _ := strings.Cut(to, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil || anchor == "" || filepath.Ext(target) != ".md" {
		return err
	}
	if !anchors(read(t, target))[anchor] {
		return fmt.Errorf("%s has no such heading", target)
	}
	return nil
}

// anchors of a page are its headings in lower case, with hyphens for spaces and
// without other signs. One that comes again gets a number.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(strings.ReplaceAll(match[1], "`", ""), "")
		slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		name := slug
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", slug, n)
		}
		all[name] = true
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
