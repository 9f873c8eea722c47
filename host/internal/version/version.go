// Package version says which release of this project a program is. Kubernetes'
// libraries have versions of their own: they derive feature gates, metrics and
// log formats from what they take for the version of the program, so that one
// stays theirs.
package version

import (
	"fmt"
	"runtime"
	"strings"

	kubernetes "k8s.io/component-base/version"
)

// The linker writes these, as the Makefile's STAMP says.
var (
	release = "v0.0.0-unstamped"
	commit  = "unknown"
)

// Release is the version of the release, a semantic version with v.
func Release() string { return release }

// IsRelease reports whether the program is of a release: then the Go modules of
// this project have the same version.
func IsRelease() bool {
	return release != "v0.0.0-unstamped" && !strings.Contains(release, "+") && !strings.Contains(release, "-dev")
}

// Line says in one line, for people, what a program is.
func Line(program string) string {
	libraries, _, _ := strings.Cut(kubernetes.Get().GitVersion, "+")
	return fmt.Sprintf("%s %s (commit %s, Kubernetes libraries %s, %s, %s/%s)",
		program, release, commit, libraries, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
