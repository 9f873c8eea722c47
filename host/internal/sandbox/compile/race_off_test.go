//go:build !race

package compile_test

// memoryFactor is for the race detector, which needs more.
const memoryFactor = 1
