//go:build pending

package e2e

import "testing"

// TestPendingScripts runs the scripts that wait for the manager to have what
// they show. One that passes belongs into the directory above.
func TestPendingScripts(t *testing.T) { runScripts(t, "pending/*.txtar") }
