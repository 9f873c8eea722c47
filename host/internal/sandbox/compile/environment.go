//go:build !race

package compile

// environment is the child's: empty.
func environment() []string { return []string{} }
