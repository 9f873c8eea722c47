// Package snapshot has the tests that instances which begin as snapshots do what
// instances made from nothing do, with the guests of this repository.
package snapshot
