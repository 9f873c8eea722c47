package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A configuration is checked without a cluster. Each mistake has a line with the file's name.
func TestCheckAPlanWithoutACluster(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	if err := os.WriteFile(gone, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(plan, []byte("{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: ["+
		"{name: a, source: {configMap: {namespace: kube-system, name: m}}, grants: [{host: 'https://api.example.com'}, {host: good.example.com, scheme: ftp}]}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, kubeconfig := range map[string]string{"no kubeconfig": filepath.Join(dir, "none"), "no API server": gone} {
		t.Setenv("KUBECONFIG", kubeconfig)
		var out bytes.Buffer
		cmd := newCheck()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs([]string{"-f", plan})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "2 of the findings are errors") {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{"providers[0].grants[0].host", "providers[0].grants[1].scheme"} {
			if n := len(linesWith(out.String(), plan+": the HostConfiguration is invalid: "+want)); n != 1 {
				t.Errorf("%s: %d lines begin with %s in\n%s", name, n, want, out.String())
			}
		}
		if len(linesWith(out.String(), "cluster: not checked")) != 1 {
			t.Errorf("%s: what was not checked is not told:\n%s", name, out.String())
		}
	}
}

// A kubeconfig or a context that a person names, and that there is not, is a mistake.
func TestCheckAPlanWithAMistypedCluster(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(plan, []byte("{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: [{name: a, source: {configMap: {namespace: kube-system, name: m}}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	for flag, want := range map[string]string{"--kubeconfig=" + dir + "/mistyped": dir + "/mistyped", "--context=mistyped": `"mistyped"`} {
		out, err := runCommand(t, "check", flag, "-f", plan)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "-f") || out != "" {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
}

func linesWith(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}
