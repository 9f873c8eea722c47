//go:build cpo

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// The cases of cloud-provider-openstack's own tests are read from its source,
// which testdata/cpo/go.mod pins, and put to this provider through the ABI,
// before a cloud in memory. REPORT.md says what came of it.
//
//	go test -tags cpo -run CPO ./openstack [-update]

const cpoModule, reportFile = "../../testdata/cpo", "../../testdata/cpo/REPORT.md"

// adapter puts the cases of one of their tests to this provider.
type adapter struct {
	test string
	// table is the variable with the cases. Empty: cases.
	table string
	cases func(f *Func) ([]Case, error)
	// how says what of this provider is compared, for the reader of a difference.
	how string
	run func(t *testing.T, c Case) result
	// meant says why a case, by its name, differs. "" is for all others.
	meant map[string]string
	// absent says why no case is run.
	absent string
}

// result is what this provider does and what they want, in words; or why the
// case cannot be put.
type result struct{ got, want, absent string }

func same(got, want any) result { return result{got: fmt.Sprint(got), want: fmt.Sprint(want)} }

// outcome is a line of the report.
type outcome struct {
	test                string
	cases, run, agree   int
	differ, unexplained []string
	absent              []absence
}

// absence is why so many cases are not run.
type absence struct {
	cases int
	why   string
}

func TestCPO(t *testing.T) {
	source, err := Load(filepath.Join(cpoSource(t), "pkg", "openstack"))
	if err != nil {
		t.Fatal(err)
	}
	adapters := slices.Concat(configAdapters(), instanceAdapters(source), routeAdapters(), sharingAdapters(), balancerAdapters(), valueAdapters(), absentAdapters())
	var outcomes []outcome
	for _, test := range source.Tests() {
		i := slices.IndexFunc(adapters, func(a adapter) bool { return a.test == test })
		if i < 0 {
			t.Errorf("%s: nobody runs its cases or says why not", test)
			continue
		}
		o, err := adapters[i].compare(t, source)
		if err != nil {
			t.Errorf("%s: %v", test, err)
		}
		for _, text := range o.unexplained {
			t.Errorf("%s: %s", test, text)
		}
		outcomes = append(outcomes, o)
	}
	compareReport(t, report(outcomes))
}

// cpoSource downloads the module, which go.sum verifies.
func cpoSource(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/cloud-provider-openstack")
	command.Dir = cpoModule
	output, err := command.Output()
	var module struct{ Dir, Error string }
	if err := json.Unmarshal(output, &module); err != nil || module.Error != "" {
		t.Fatalf("go mod download: %s %v", module.Error, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return module.Dir
}

func (a *adapter) compare(t *testing.T, source *Source) (outcome, error) {
	o := outcome{test: a.test}
	f, err := source.Func(a.test)
	if err != nil {
		return o, err
	}
	list := a.cases
	if list == nil {
		list = func(f *Func) ([]Case, error) { return f.Table(a.table) }
	}
	cases := []Case{{Name: "the test"}}
	if a.table != "" || a.cases != nil {
		if cases, err = list(f); err != nil {
			return o, err
		}
	}
	o.cases = len(cases)
	if a.absent != "" {
		o.absent = append(o.absent, absence{o.cases, a.absent})
		return o, nil
	}
	left := map[string]bool{}
	for name := range a.meant {
		left[name] = true
	}
	for _, c := range cases {
		a.one(t, c, &o, left)
	}
	for name := range left {
		o.unexplained = append(o.unexplained, fmt.Sprintf("case %q is said to differ and does not", name))
	}
	return o, nil
}

func (a *adapter) one(t *testing.T, c Case, o *outcome, left map[string]bool) {
	r := result{absent: fmt.Sprint(c.Err)}
	if c.Err == nil {
		r = a.run(t, c)
	}
	if r.absent != "" {
		o.absent = append(o.absent, absence{1, r.absent})
		return
	}
	o.run++
	if r.got == r.want {
		o.agree++
		return
	}
	why, found := a.meant[c.Name]
	delete(left, c.Name)
	text := fmt.Sprintf("%s: theirs %s, ours %s", c.Name, short(r.want), short(r.got))
	if !found {
		o.unexplained = append(o.unexplained, text+"; what is compared: "+a.how)
	}
	o.differ = append(o.differ, text+". "+why)
}

func short(text string) string {
	if text == "" {
		return "nothing"
	}
	return "`" + strings.ReplaceAll(text[:min(len(text), 120)], "\n", " ") + "`"
}

func report(outcomes []outcome) string {
	var b strings.Builder
	total, whole := outcome{}, 0
	for _, o := range outcomes {
		total.cases, total.run, total.agree = total.cases+o.cases, total.run+o.run, total.agree+o.agree
		if o.agree == o.cases {
			whole++
		}
	}
	fmt.Fprintf(&b, reportHead, len(outcomes), total.cases, total.agree, total.run-total.agree, total.cases-total.run, whole)
	for _, o := range outcomes {
		for _, text := range o.differ {
			fmt.Fprintf(&b, "- %s: %s\n", o.test, text)
		}
	}
	b.WriteString("\n## Cases that were not run\n\n")
	for _, group := range notRun(outcomes) {
		fmt.Fprintf(&b, "- %d: %s\n", group.cases, group.why)
	}
	return b.String()
}

// notRun are the absent cases, those with one reason together.
func notRun(outcomes []outcome) (all []absence) {
	for _, o := range outcomes {
		for _, one := range o.absent {
			if i := slices.IndexFunc(all, func(a absence) bool { return a.why == one.why }); i >= 0 {
				all[i].cases += one.cases
				continue
			}
			all = append(all, one)
		}
	}
	return all
}

const reportHead = `# The test tables of cloud-provider-openstack v1.31.2, run against this provider

Written by ` + "`go test -tags cpo -run CPO ./openstack -update`" + ` in guests/, and compared by it. The cases of
k8s.io/cloud-provider-openstack@v1.31.2/pkg/openstack go to the provider through the ABI, before a cloud in memory. The
adapters in guests/openstack/cpo_*_test.go say what each compares.

Of %d tests with %d cases, %d cases agree, %d differ, and %d were not run; %d tests agree in all cases.

## Cases that differ

`

func compareReport(t *testing.T, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(reportFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(reportFile)
	if err != nil || string(golden) != text {
		t.Errorf("testdata/cpo/REPORT.md is not what came out (%v); see the cases above, and write it with -update:\n%s", err, text)
	}
}

// run is one case before a cloud.
type run struct {
	t     *testing.T
	cloud *cloud
	host  *sdktest.Host
	conf  map[string][]string // lines of cloud.conf by section
}

func newRun(t *testing.T) *run {
	r := &run{t: t, cloud: newCloud(), host: sdktest.New(t), conf: map[string][]string{"Global": {"auth-url = http://cloud"}}}
	r.host.HTTP = r.cloud.serve
	return r
}

// set adds a line of cloud.conf, unless the value is empty.
func (r *run) set(section, key string, value any) {
	if text := fmt.Sprint(value); text != "" {
		r.conf[section] = append(r.conf[section], fmt.Sprintf("%s = %q", key, text))
	}
}

func (r *run) configure() error {
	var b strings.Builder
	for _, section := range slices.Sorted(maps.Keys(r.conf)) { // errors name lines
		fmt.Fprintf(&b, "[%s]\n%s\n", section, strings.Join(r.conf[section], "\n"))
	}
	r.host.Serve(&provider{})
	return r.host.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(b.String()), ClusterName: "kubernetes"}, &abi.ConfigureResponse{})
}
