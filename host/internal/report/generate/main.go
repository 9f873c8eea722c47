// Command generate writes what is made from the register: tables of the documents and
// the chart's alerts. Its argument is the directory deploy.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(deploy string) error {
	for _, block := range []struct{ file, name, text string }{
		{"EVENTS.md", "events", eventTables()},
		{"docs/troubleshoot.md", "causes", causeTable()},
		{"docs/monitor.md", "alerts", alertExpressions()},
	} {
		if err := replace(filepath.Join(deploy, block.file), block.name, block.text); err != nil {
			return err
		}
	}
	rules, err := alertRules()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(deploy, "chart", "files", "alerts.yaml"), rules, 0o644)
}

// replace puts a text between the marks of a page.
func replace(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte("<!-- begin "+name+": make generate -->\n"))
	_, after, ended := bytes.Cut(rest, []byte("<!-- end "+name+" -->"))
	if !found || !ended {
		return fmt.Errorf("%s: there are no marks begin and end %s", path, name)
	}
	begin, end := "<!-- begin "+name+": make generate -->\n", "\n<!-- end "+name+" -->"
	return os.WriteFile(path, []byte(string(before)+begin+text+end+string(after)), 0o644)
}
