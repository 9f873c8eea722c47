package conformance

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of section 17 of SPEC.md lists exactly the clauses.
func TestSpecHasEachClause(t *testing.T) {
	spec, err := os.ReadFile("../../abi/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(spec), "\n| clause | what it checks | section |\n")
	var said []string
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[^|]*"+`) \|`).FindAllStringSubmatch(table, -1) {
		for _, id := range strings.Split(row[1], ", ") {
			said = append(said, strings.Trim(id, "`"))
		}
	}
	if want := slices.Sorted(slices.Values(IDs())); !slices.Equal(slices.Sorted(slices.Values(said)), want) {
		t.Errorf("SPEC.md has the clauses\n%q, the kit\n%q", said, want)
	}
}
