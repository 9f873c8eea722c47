//go:build !race

package controllers

// raceEnabled tells whether the race detector looks on.
const raceEnabled = false
