//go:build !race

package peak

// slack is that of the race detector, which is not there.
const slack = 1
