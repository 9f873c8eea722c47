// Package convert translates between Kubernetes objects and the messages of
// the ABI. Its functions are pure: they keep and change nothing of their
// arguments, and their results share only strings with them.
//
// It checks the guest's answers: a resulting Kubernetes object is one that the
// API server would accept, or there is an error that says what is wrong with the
// answer.
package convert
