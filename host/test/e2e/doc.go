// Package e2e runs the scripts of testdata/script: the manager's real binary
// and a real guest against a real kube-apiserver, step by step as an
// administrator would do it. RATIONALE.md says how; every command of the
// scripts is described where it is defined, in the *_test.go files.
//
// It has only tests.
package e2e
