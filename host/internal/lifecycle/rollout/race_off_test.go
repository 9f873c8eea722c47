//go:build !race

package rollout_test

// lives are how many of TestRandomLives there are.
const lives = 2000
