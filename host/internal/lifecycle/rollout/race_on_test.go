//go:build race

package rollout_test

// lives are fewer where the race detector looks at each step.
const lives = 300
