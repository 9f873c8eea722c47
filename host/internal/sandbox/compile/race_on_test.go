//go:build race

package compile_test

// memoryFactor is what the race detector needs beside each byte.
const memoryFactor = 16

// raced: the detector may be the first that gets no memory, and says so in its own
// words.
const raced = true
