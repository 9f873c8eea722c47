// Package report is the register of what this manager tells people: one code for
// each fact, with its words, its next step and its page. Events, explanations, the
// metric wasm_ccm_stuck, the findings of ccmctl check, the chart's alerts and the
// tables of the documents are made from it. It knows no objects: whoever finds a
// fact looks its words up here.
package report

//go:generate go run ./generate ../../../deploy

import (
	"regexp"
	"strings"
)

// Step is something that a person can do.
type Step struct {
	What string
	// Command may have the placeholders of Of; "" if none helps.
	Command string
}

// Of are the values of a command's placeholders: an object, its provider, and the
// namespace of the manager.
type Of struct {
	Manager, Namespace, Name, Provider string
	// Choice is the provider to name for an object without one, Digest the offered module's.
	Choice, Digest string
}

// Fill returns the step about these objects. A value is not looked into for more
// placeholders.
func (s Step) Fill(o Of) Step { return Step{o.fill(s.What), o.fill(s.Command)} }

func (o Of) fill(command string) string {
	if o.Manager != "" && o.Manager != "kube-system" { // the default of ccmctl
		command = ofManager.ReplaceAllString(command, "$1 --manager-namespace {manager}")
	}
	return strings.NewReplacer(
		"{manager}", o.Manager, "{namespace}", o.Namespace, "{name}", o.Name,
		"{provider}", o.Provider, "{choice}", o.Choice, "{digest}", o.Digest,
	).Replace(command)
}

// ForManager is a command of ccmctl that asks the manager of a namespace.
func ForManager(namespace, command string) string {
	return Of{Manager: namespace}.fill(command)
}

// Promote is the command that lets a module serve.
func Promote(manager, provider, digest string) string {
	return Of{Manager: manager, Provider: provider, Digest: digest}.fill(promote)
}

// ofManager is each command that asks a manager.
var ofManager = regexp.MustCompile(`(ccmctl (?:status|why|check|calls|rollout)[^;|]*)`)

// Documented returns the command as the documents show it.
func (s Step) Documented() string {
	return s.Fill(Of{"kube-system", "NAMESPACE", "NAME", "PROVIDER", "PROVIDER", "DIGEST"}).Command
}
