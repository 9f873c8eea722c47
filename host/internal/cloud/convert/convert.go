// Package convert translates between Kubernetes objects and the messages of the ABI. Its
// functions are pure: they neither keep nor change their arguments, and their results share
// only strings with them.
//
// It checks the guest's answers: the result is a Kubernetes object that the API server would
// accept, or an error that says what is wrong with the answer.
package convert
