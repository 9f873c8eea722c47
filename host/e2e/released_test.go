package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	_ "k8s.io/component-base/logs/json/register" // as the manager has it
)

// The binary that users get has every flag and feature gate of a plain manager
// of the same library: its version stamp decides over both.
func TestReleasedBinaryHasTheFlagsAndGatesOfItsLibrary(t *testing.T) {
	released, err := exec.CommandContext(t.Context(), filepath.Join(buildDir(t), "cloud-controller-manager"), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, released)
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(released)) {
		has[strings.Join(strings.Fields(line), " ")] = true
	}
	gates := 0
	for line := range strings.Lines(plainHelp(t)) {
		line = strings.Join(strings.Fields(line), " ")
		if strings.Contains(line, "=true|false") {
			gates++
		}
		if strings.Contains(line, "--cloud-provider ") || strings.HasPrefix(line, "All controllers:") {
			continue // a default of ours, and one controller more
		}
		if !has[line] {
			t.Errorf("the released binary does not say %q", line)
		}
	}
	if gates < 10 {
		t.Errorf("the plain manager has only %d feature gates", gates)
	}
}

// plainHelp is the flags of upstream's manager, with nothing of ours.
func plainHelp(t *testing.T) string {
	t.Helper()
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	for _, set := range o.Flags(app.ControllerNames(app.DefaultInitFuncConstructors), app.ControllersDisabledByDefault.List(), names.CCMControllerAliases(), app.AllWebhooks, app.DisabledByDefaultWebhooks).FlagSets {
		help.WriteString(set.FlagUsages())
	}
	return help.String()
}
