//go:build race

package compile

// environment is that of a child with the race detector. Without it each child
// sleeps for a second when it ends (atexit_sleep_ms), which is twice per module
// and made the long tests take twice their time.
func environment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
