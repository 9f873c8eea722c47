package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each line of an example is valid: its command has its flags, and accepts its
// number of arguments.
func TestExamples(t *testing.T) {
	found := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, line := range examples(cmd) {
			found++
			try(t, cmd, line)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newCommand())
	if found < 15 {
		t.Errorf("only %d examples", found)
	}
}

// examples are the lines of a command's example, with continuations joined.
func examples(cmd *cobra.Command) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func try(t *testing.T, of *cobra.Command, line string) {
	t.Helper()
	words := strings.Fields(line)
	root := newCommand() // flags keep their values between runs
	if words[0] != root.Name() {
		t.Errorf("%s: an example of another program: %s", of.CommandPath(), line)
		return
	}
	cmd, args, err := root.Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil {
		err = cmd.ValidateRequiredFlags()
	}
	if err != nil {
		t.Errorf("%s: the example %q: %v", of.CommandPath(), line, err)
	}
	if !strings.HasPrefix(cmd.CommandPath(), of.CommandPath()) {
		t.Errorf("%s has an example of %s", of.CommandPath(), cmd.CommandPath())
	}
}

// The commands for clusters have help that fits a terminal, and examples.
func TestHelp(t *testing.T) {
	for _, name := range []string{"status", "why", "calls", "bundle", "check", "dashboard", "rollout", "rollout pause", "rollout promote", "rollout rollback", "rollout history"} {
		cmd, _, err := newCommand().Find(strings.Fields(name))
		if err != nil || cmd.Example == "" || cmd.Short == "" {
			t.Fatalf("%s: %v, %q", name, err, cmd.Example)
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 85 {
				t.Errorf("%s: a long line: %s", name, line)
			}
		}
	}
}

func TestPluginOfKubectl(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/kubectl-ccm": "kubectl ccm", "ccmctl": "ccmctl", "./build/ccmctl": "ccmctl", "kubectl-ccm.exe": "kubectl ccm",
	} {
		if got := displayName(program); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_ccmctl", "zsh": "#compdef ccmctl", "fish": "complete -c ccmctl"} {
		if out := mustCcmctl(t, "completion", shell); !strings.Contains(out, want) {
			t.Errorf("%s: %.200q", shell, out)
		}
	}
	for line, want := range map[string]string{
		"__complete why ":       `(?m)^service\nnode\nroute\npv\nprovider$`,
		"__complete status -o ": `(?m)^table$`,
	} {
		words := strings.Split(line, " ")
		if out := mustCcmctl(t, words...); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q: %s", line, out)
		}
	}
}
