package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Actions classify the requests of an API whose methods do not, such as AWS's
// or SOAP: every request is a POST, and the body names an action. Both are
// regular expressions.
type Actions struct {
	// Name finds the action's name in a body, as its first group.
	Name string `json:"name"`
	// Reads matches the names of read-only actions.
	Reads string `json:"reads"`
}

// actions are compiled Actions. The zero value classifies by method only.
type actions struct{ name, reads *regexp.Regexp }

func newActions(from *Actions) (a actions, err error) {
	if from == nil {
		return a, nil
	}
	if a.name, err = regexp.Compile(from.Name); err != nil {
		return a, fmt.Errorf("actions.name: %w", err)
	}
	if a.name.NumSubexp() < 1 {
		return a, fmt.Errorf("actions.name: %q has no group: put the name into (...)", from.Name)
	}
	if a.reads, err = regexp.Compile(from.Reads); err != nil {
		return a, fmt.Errorf("actions.reads: %w", err)
	}
	if from.Reads == "" {
		return a, errors.New("actions.reads is empty: say which actions only read, such as ^Describe")
	}
	return a, nil
}

// of is the name of the request's action, or "".
func (a actions) of(r *abi.HttpRequest) string {
	if a.name == nil {
		return ""
	}
	if found := a.name.FindSubmatch(r.Body); found != nil {
		return string(found[1])
	}
	return ""
}

// write reports whether the request may change something.
func (a actions) write(r *abi.HttpRequest) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	name := a.of(r)
	return name == "" || !a.reads.MatchString(name)
}

// about is method, path and action; a query could contain anything.
func (a actions) about(r *abi.HttpRequest) string {
	u, err := url.Parse(r.Url)
	if err != nil {
		return r.Method + " ?"
	}
	about := r.Method + " " + text.Line(u.Path, 200)
	if name := a.of(r); name != "" {
		about += " " + text.Line(name, 100)
	}
	return about
}
