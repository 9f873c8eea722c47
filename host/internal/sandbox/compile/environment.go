//go:build !race

package compile

// environment is the child's: nothing.
func environment() []string { return []string{} }
