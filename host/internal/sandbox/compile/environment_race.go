//go:build race

package compile

// environment is a child's under the race detector. By default each child would sleep for a
// second at its end (atexit_sleep_ms), twice per module, which doubles the time of the long
// tests.
func environment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
