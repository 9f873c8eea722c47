//go:build browser

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The status page in Chromium: on a desktop and on a phone, light and dark. What is
// looked at, testdata/tools/browser says; the pictures are in build/screenshots.
func TestStatusPageInABrowser(t *testing.T) {
	r := newRig(t, "e2e-browser")
	pictures := filepath.Join(r.build, "screenshots")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), filepath.Join(r.build, "bin", "browser"), "-o", pictures, r.stuckDashboard(t), "e2e-browser/web")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
