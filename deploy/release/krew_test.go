package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Krew installs each ccmctl by the manifest: its archive is in the release, has the digest
// and holds the same program, executable, with the licence.
func TestKrewInstallsTheRelease(t *testing.T) {
	parts := fakeParts(t)
	out := packed(t, parts, "")
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(out, "ccm.yaml")), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Metadata.Name != "ccm" || plugin.Spec.Version != "v1.2.3" || len(plugin.Spec.Platforms) != 4 {
		t.Errorf("%+v", plugin)
	}
	for _, platform := range plugin.Spec.Platforms {
		name := "ccmctl-" + platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"]
		archive, found := strings.CutPrefix(platform.URI, "https://github.com/wasm-ccm/wasm-ccm/releases/download/v1.2.3/")
		if sum, err := sumOf(filepath.Join(out, archive)); !found || err != nil || sum != platform.SHA256 {
			t.Errorf("%s: %s, %s has %s, %v", name, platform.URI, archive, sum, err)
		}
		unpacked := t.TempDir()
		if said, err := runIn(t, unpacked, "sh", "-c", `tar -xzf "$0" && cmp ccmctl "$1" && test -x ccmctl && cat LICENSE`, filepath.Join(out, archive), filepath.Join(parts, name)); err != nil || said != "the licence" {
			t.Errorf("%s: %v, %s", name, err, said)
		}
	}
}

// The completions are what the release's own ccmctl writes.
func TestCompletionsOfTheRelease(t *testing.T) {
	out := packed(t, fakeParts(t), "")
	for _, shell := range []string{"bash", "fish", "zsh"} {
		if script := string(read(t, filepath.Join(out, "ccmctl-completion."+shell))); script != "# [completion "+shell+"]\n" {
			t.Errorf("%s: %q", shell, script)
		}
	}
}
