//go:build race

package peak

// slack is for the shadow memory of the race detector.
const slack = 10
