//go:build race

package compile_test

// memoryFactor is what the race detector needs beside each byte.
const memoryFactor = 16
