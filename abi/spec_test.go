package abi_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const specFile = "SPEC.md"

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// section returns the lines of SPEC.md between a marker and its end.
func section(t *testing.T, marker string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readText(t, specFile), "<!-- "+marker+" -->\n")
	text, _, end := strings.Cut(rest, "<!-- end -->")
	if !ok || !end {
		t.Fatalf("%s has no section %q", specFile, marker)
	}
	return text
}

// rows returns the cells of the table's rows, without its head.
func rows(text string) [][]string {
	var all [][]string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		all = append(all, cells)
	}
	return all
}

func TestSpecOps(t *testing.T) {
	got := rows(section(t, "ops: checked against op.go"))
	if len(got) != len(abi.Ops()) {
		t.Fatalf("%d ops, %d in %s", len(abi.Ops()), len(got), specFile)
	}
	yes := map[bool]string{true: "yes"}
	for i, op := range abi.Ops() {
		request, response := op.New()
		required := slices.Contains(op.Group().Required(), op)
		want := []string{fmt.Sprint(uint32(op)), op.String(), op.Group().String(), yes[required], yes[op.Writes()], nameOf(request), nameOf(response)}
		if !slices.Equal(got[i], want) {
			t.Errorf("%s says %q, the code %q", specFile, got[i], want)
		}
	}
}

func nameOf(m abi.Message) string { return reflect.TypeOf(m).Elem().Name() }

// The table of section 7 says which ops may answer the codes 4 and 6.
func TestSpecAnswers(t *testing.T) {
	_, text, _ := strings.Cut(readText(t, specFile), "\n| op | request | ok means |")
	for _, op := range abi.Ops() {
		row := regexp.MustCompile("(?m)^\\| `" + op.String() + "` \\|.*\\| ([^|]*)\\|$").FindStringSubmatch(text)
		if row == nil {
			t.Fatalf("%s does not say what %s means", specFile, op)
		}
		codes, _, _ := strings.Cut(row[1], ":")
		for _, code := range []abi.Code{abi.CodeInstanceNotFound, abi.CodeImplementedElsewhere} {
			if says := slices.Contains(strings.Split(strings.TrimSpace(codes), ", "), fmt.Sprint(uint32(code))); says != op.MayAnswer(code) {
				t.Errorf("%s may answer %s: %s says %v, the code %v", op, code, specFile, says, op.MayAnswer(code))
			}
		}
	}
}

// What is no op belongs to nothing, and does nothing.
func TestNoOp(t *testing.T) {
	for _, op := range []abi.Op{0, 4, 99} {
		request, response := op.New()
		if op.Group() != 0 || op.Writes() || op.Reads() || request != nil || response != nil || op.MayAnswer(abi.CodeInstanceNotFound) {
			t.Errorf("%s is taken for an op", op)
		}
	}
	for _, g := range abi.Groups() {
		if len(g.Required()) == 0 || g.Missing(func(abi.Op) bool { return false }) != nil {
			t.Errorf("%s: required %v, missing of none %v", g, g.Required(), g.Missing(func(abi.Op) bool { return false }))
		}
	}
	if got := abi.GroupInstances.Missing(func(op abi.Op) bool { return op == abi.OpListInstances }); !slices.Equal(got, abi.GroupInstances.Required()) {
		t.Errorf("beside list_instances are missing %v", got)
	}
}

func TestSpecCodes(t *testing.T) {
	got := rows(section(t, "codes: checked against error.go"))
	for i := range got {
		if want := []string{fmt.Sprint(i), abi.Code(i).String()}; !slices.Equal(got[i][:2], want) {
			t.Errorf("%s says %q, the code %q", specFile, got[i][:2], want)
		}
	}
	if next := abi.Code(len(got)); next.Known() || !(next - 1).Known() {
		t.Errorf("%s has %d codes, the code others", specFile, len(got))
	}
}

func TestSpecLimits(t *testing.T) {
	want := map[string]int{
		"MaxRequestBytes": abi.MaxRequestBytes, "MaxResponseBytes": abi.MaxResponseBytes,
		"MaxErrorMessageBytes": abi.MaxErrorMessageBytes, "MaxHostCallBytes": abi.MaxHostCallBytes,
		"MaxHostResultBytes": abi.MaxHostResultBytes, "MaxLogMessageBytes": abi.MaxLogMessageBytes,
		"MaxManifestBytes": abi.MaxManifestBytes, "MaxHTTPBatch": abi.MaxHTTPBatch, "MaxNodesPage": abi.MaxNodesPage,
		"MaxLogRequestBytes": abi.MaxLogRequestBytes, "MaxEventRequestBytes": abi.MaxEventRequestBytes,
		"MaxNodesRequestBytes": abi.MaxNodesRequestBytes, "MaxCacheRequestBytes": abi.MaxCacheRequestBytes,
		"MaxStoreRequestBytes": abi.MaxStoreRequestBytes, "MaxKubeRequestBytes": abi.MaxKubeRequestBytes, "MaxKubePage": abi.MaxKubePage,
	}
	declared := regexp.MustCompile(`(?m)^\tMax\w+ *=`).FindAllString(readText(t, "abi.go"), -1)
	got := rows(section(t, "limits: checked against abi.go"))
	if len(got) != len(want) || len(declared) != len(want) {
		t.Errorf("%d limits in %s, %d in abi.go, %d in this test", len(got), specFile, len(declared), len(want))
	}
	for _, row := range got {
		if value, _, _ := strings.Cut(row[1], " "); value != fmt.Sprint(want[row[2]]) {
			t.Errorf("%s says that %s is %s, abi.go says %d", specFile, row[2], value, want[row[2]])
		}
	}
}

// Every name that a guest imports or exports is in the text.
func TestSpecNames(t *testing.T) {
	text := readText(t, specFile)
	names := append(abi.Capabilities(), abi.ImportReqRead, abi.ImportRespWrite, abi.ImportErrWrite, abi.ImportResultRead,
		abi.ImportNow, abi.ImportDeadline, abi.ImportLog, abi.ExportMemory, abi.ExportInitialize, abi.ExportMarker, abi.ExportCall)
	for _, name := range names {
		if !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("%s has no row for %s", specFile, name)
		}
	}
}

func TestSpecExampleBytes(t *testing.T) {
	examples := regexp.MustCompile(`<!-- hex (\S+) -->\n    ([0-9a-f ]+)\n`).FindAllStringSubmatch(readText(t, specFile), -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples in %s, want 2", len(examples), specFile)
	}
	for _, example := range examples {
		i := slices.IndexFunc(vectors(t), func(v vector) bool { return v.Name == example[1] })
		if i < 0 {
			t.Fatalf("no vector %s", example[1])
		}
		want := fmt.Sprintf("% x", vectors(t)[i].bytes(t))
		if _, err := hex.DecodeString(strings.ReplaceAll(example[2], " ", "")); err != nil || example[2] != want {
			t.Errorf("%s: %s says %s, the vector %s", example[1], specFile, example[2], want)
		}
	}
}

func TestChangelogCounts(t *testing.T) {
	codes := 0
	for abi.Code(codes).Known() {
		codes++
	}
	for _, want := range []string{fmt.Sprintf("%d ops", len(abi.Ops())), fmt.Sprintf("%d codes", codes)} {
		if !strings.Contains(readText(t, "CHANGELOG.md"), want) {
			t.Errorf("CHANGELOG.md does not say %s: list what was added", want)
		}
	}
}
