//go:build !race

package compile_test

// memoryFactor is for the race detector, which needs more.
const memoryFactor = 1

// raced: the detector may be the first that gets no memory, and says so in its own
// words.
const raced = false
