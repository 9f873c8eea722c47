//go:build node

package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// told is how soon a mistake has to be named.
const told = 30 * time.Second

// mistake is one of a new operator.
type mistake struct {
	name string
	// make makes it, and returns what mends it.
	make func(t *testing.T, h *healthy) (mend func())
	// asks is what the operator runs, ccmctl check by default; says is a regular
	// expression of what has to be in its output, "REASON where: what" of a finding.
	asks []string
	says string
	// also are the reasons of findings that are true as well: consequences.
	also string
}

// healthy is a cluster of two Nodes in which nothing is wrong.
type healthy struct {
	user
	cloud *cloud
	// told counts the mistakes that were named in time, untrue the findings that were not true.
	total, told int
	untrue      map[string]bool
}

// finding is one of ccmctl check.
type finding struct{ Severity, Reason, Where, What, Mend string }

func (f finding) String() string {
	return fmt.Sprintf("%s %s: %s -> %s", f.Reason, f.Where, f.What, f.Mend)
}

// TestMistakes makes mistakes on real kubelets, whose hostnames are not the names of
// their Nodes: before the manager is installed, while it is, and afterwards. Each has to
// be named within 30 s, with what mends it, and nothing else may be said to be wrong.
func TestMistakes(t *testing.T) {
	c := startCluster(t)
	h := &healthy{user: c.administrator(), cloud: newCloud(t), untrue: map[string]bool{}}
	c.join(t, 1).connect(t)
	t.Cleanup(func() {
		t.Logf("figure: %d of %d mistakes are told within %v; statements that were false: %d", h.told, h.total, told, len(h.untrue))
	})
	for _, m := range before() {
		h.try(t, m)
	}
	h.install(t)
	for _, m := range all() {
		h.try(t, m)
	}
}

func all() (mistakes []mistake) {
	for _, some := range [][]mistake{refused(), ofPods(), ofModules(), ofClouds(), ofNodes(), ofServices(), ofObjects()} {
		mistakes = append(mistakes, some...)
	}
	return mistakes
}

// try makes a mistake, hears what is told, and mends it.
func (h *healthy) try(t *testing.T, m mistake) {
	t.Helper()
	t.Run(m.name, func(t *testing.T) {
		h.total++
		mend := m.make(t, h)
		if mend != nil {
			defer func() {
				mend()
				h.clean(t)
			}()
		}
		begun := time.Now()
		out, err := h.hears(t, m)
		if err != nil {
			t.Errorf("after %v nothing says %q:\n%s", told, m.says, out)
			return
		}
		h.told++
		t.Logf("figure: told after %.1f s", time.Since(begun).Seconds())
	})
}

// hears asks until the mistake is named, and returns what was said the last time.
func (h *healthy) hears(t *testing.T, m mistake) (out string, err error) {
	t.Helper()
	want := regexp.MustCompile(`(?m)` + m.says)
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, told, true, func(context.Context) (bool, error) {
		if m.asks != nil {
			out = h.output(t.Context(), m.asks...)
			return want.MatchString(out), nil
		}
		findings := h.findings(t)
		out = lines(findings)
		return h.judge(t, m, want, findings), nil
	})
	t.Logf("%s", out)
	return out, err
}

// judge reports whether the mistake is among the findings, and looks at all others.
func (h *healthy) judge(t *testing.T, m mistake, want *regexp.Regexp, findings []finding) (named bool) {
	t.Helper()
	seen := map[string]bool{}
	consequence := regexp.MustCompile(`^(` + m.also + `)$`)
	for _, f := range findings {
		if what := f.String(); seen[f.Reason+f.Where] && f.Reason != "RightMissing" {
			t.Errorf("this is told twice: %s", what)
		}
		seen[f.Reason+f.Where] = true
		switch {
		case want.MatchString(f.String()) && f.Mend != "":
			named = true
		case !consequence.MatchString(f.Reason):
			h.untrue[f.Reason+" "+f.Where] = true
			t.Errorf("this is not true: %v", f)
		}
	}
	return named
}

// findings are the errors and warnings of ccmctl check.
func (h *healthy) findings(t *testing.T) (wrong []finding) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := h.command(t.Context(), built("ccmctl"), "check", "-o", "json", "--patience=5s")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run() // 1 if there is an error
	var all []finding
	if decoding := json.Unmarshal(stdout.Bytes(), &all); decoding != nil {
		t.Fatalf("%v, %v: %s%s", err, decoding, stdout.Bytes(), stderr.Bytes())
	}
	for _, f := range all {
		if f.Severity == "error" || f.Severity == "warning" {
			wrong = append(wrong, f)
		}
	}
	return wrong
}

func lines(findings []finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Severity+" "+f.String())
	}
	return strings.Join(all, "\n")
}

// output is all that a command says: ccmctl, helm or kubectl. @ is the directory of what
// was written.
func (h *healthy) output(ctx context.Context, args ...string) string {
	args = strings.Split(strings.ReplaceAll(strings.Join(args, "\n"), "@", data()+"/"), "\n")
	program := map[string]string{"ccmctl": built("ccmctl"), "helm": asset("helm"), "kubectl": asset("kubectl")}[args[0]]
	out, err := h.command(ctx, program, args[1:]...).CombinedOutput()
	return fmt.Sprintf("$ %s\n%s%v", strings.Join(args, " "), out, err)
}

// clean waits until nothing is wrong any more.
func (h *healthy) clean(t *testing.T) {
	t.Helper()
	var findings []finding
	begun := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		findings = h.findings(t)
		return len(findings) == 0, nil
	})
	if err != nil {
		t.Fatalf("it is mended, and ccmctl check says\n%s", lines(findings))
	}
	t.Logf("figure: nothing is wrong %.1f s after the remedy", time.Since(begun).Seconds())
}
