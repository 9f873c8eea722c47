package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// known are instances that exist, by ID, and where the cloud told of them, the latest
// at the end. It decides whether a list is one of this cluster's instances, and
// whether a status is one of the cloud's; losing it delays an answer.
type known struct {
	mu      sync.Mutex
	ids     []string
	origins []origin
}

const maxKnown = 64

func (k *known) add(providerID string) {
	id := lastOf(providerID)
	if id == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = slices.DeleteFunc(k.ids, func(other string) bool { return other == id })
	k.ids = append(k.ids[max(0, len(k.ids)-maxKnown+1):], id)
}

// others are the known ones without those.
func (k *known) others(ids []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.ids), func(id string) bool { return slices.Contains(ids, id) })
}

// lastOf is the part of a provider ID that is the cloud's own.
func lastOf(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// identities are what the cloud may call the instance of a node.
func identities(node *abi.Node) []string {
	ids := []string{lastOf(node.ProviderId)}
	if node.ProviderId == "" {
		ids = []string{node.Name}
	}
	if node.SystemUuid != "" {
		ids = append(ids, node.SystemUuid)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// instanceGone is nil when the cloud itself said that the instance of the node
// is not there. The error says what is missing.
func (p *provider) instanceGone(w *witness, node *abi.Node) error {
	if p.saidGone(w, node) {
		return nil
	}
	err := w.whole(p.goneWords())
	if err == nil && p.listed(w, identities(node)) {
		return nil
	}
	if node.ProviderId == "" && err == nil {
		// No machine has the name: that is all that a cloud can say, and no failure.
		return unproven(abi.CodeInvalid, "instance of node "+node.Name, w, err)
	}
	return unproven(abi.CodeInternal, "instance of node "+node.Name, w, err)
}

// saidGone reports whether an answer names the instance of the node, and says by
// its status or a word of the cloud that it is not there.
func (p *provider) saidGone(w *witness, node *abi.Node) bool {
	gone, ids := p.goneWords(), identities(node)
	return slices.ContainsFunc(w.answers, func(a answer) bool {
		return (a.hasWord(gone) || a.empty(p.empty)) && a.names(ids) || a.notFound(ids) && p.known.understood(&a, node)
	})
}

// instanceFailure is an error of the provider about an instance. Where it does
// not tell why, as AWS' about power does not, the cloud may have: that the
// instance is gone. That it is not found must be an answer of the cloud, but
// deletes nothing: any complete list is one.
func (p *provider) instanceFailure(w *witness, node *abi.Node, err error) error {
	p.bridge.witness(nil)
	whole, said := w.whole(p.goneWords()), p.saidGone(w, node)
	switch code := sdk.CodeOf(convertError(err)); {
	case code == abi.CodeInternal && whole == nil && said:
		return sdk.InstanceNotFound(err.Error())
	case code == abi.CodeInstanceNotFound && p.settings.strict() && len(w.answers) > 0 && !said && (whole != nil || !w.lists()):
		return unproven(abi.CodeInternal, "instance of node "+node.Name, w, whole)
	}
	return p.failure(err)
}

// listed reports whether a complete list has another instance that is known to
// exist, and nothing names this one. An answer that says nothing may be the page
// of the list that would.
func (p *provider) listed(w *witness, ids []string) bool {
	others, gone, found := p.known.others(ids), p.goneWords(), false
	for i := range w.answers {
		a := &w.answers[i]
		if a.silence(gone) != nil {
			return false
		}
		if slices.ContainsFunc(ids, func(id string) bool { return contains(a.answer, id) }) {
			return false
		}
		_, list, err := read(a.answer)
		found = found || err == nil && list && w.all(a) && slices.ContainsFunc(others, func(id string) bool { return contains(a.answer, id) })
	}
	return found
}

// balancerGone is nil when the cloud said that there is no load balancer: by a
// status, a word, or a list, which may be empty: clouds look load balancers up
// by name. A provider that asked for nothing decided by the Service alone.
func (p *provider) balancerGone(w *witness, name string) error {
	gone, lists := p.goneWords(), 0
	err := w.whole(gone)
	for i := range w.answers {
		a := &w.answers[i]
		if a.says(gone) {
			lists++
		} else if _, list, bad := read(a.answer); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", a.line, bad))
		} else if list && w.wholeList(a, len(w.answers), true) {
			lists++
		}
	}
	if err == nil && (len(w.answers) == 0 || lists > 0) {
		return nil
	}
	return unproven(abi.CodeInternal, "load balancer of Service "+name, w, err)
}

// heard is nil when each answer from which a provider may have learned that
// there is nothing says something.
func (p *provider) heard(w *witness, what string) error {
	gone := p.goneWords()
	for i := range w.answers {
		if err := w.answers[i].silence(gone); err != nil {
			return unproven(abi.CodeInternal, what, w, err)
		}
	}
	return nil
}

func unproven(code abi.Code, what string, w *witness, err error) error {
	text := fmt.Sprintf("the provider takes the %s for gone, but the cloud did not say so in %d answers", what, len(w.answers))
	if err != nil {
		text += ": " + err.Error()
	}
	return sdk.Error(code, text+". If the cloud says it by a word of its own, add it to gone; strictExistence: false takes the provider's word for it")
}

func (p *provider) goneWords() []string { return slices.Concat(p.gone, p.settings.Gone) }
