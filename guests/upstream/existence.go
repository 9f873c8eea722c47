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

// known are existing instances by ID, with the place of the cloud's answer, the
// latest last. They decide whether a list is of this cluster's instances, and
// whether a status is the cloud's; their loss only delays an answer.
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

// others are the known instances without these.
func (k *known) others(ids []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.ids), func(id string) bool { return slices.Contains(ids, id) })
}

// lastOf is the cloud's own part of a provider ID.
func lastOf(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// identities are the names that the cloud may have for a node's instance.
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

// instanceGone returns nil if the cloud itself said that the node's instance
// does not exist. The error says what is missing.
func (p *provider) instanceGone(w *witness, node *abi.Node) error {
	if p.saidGone(w, node) {
		return nil
	}
	err := w.whole(p.goneWords())
	if err == nil && p.listed(w, identities(node)) {
		return nil
	}
	if node.ProviderId == "" && err == nil {
		// No machine has the name: the cloud can say no more, and it is no
		// failure.
		return unproven(abi.CodeInvalid, "instance of node "+node.Name, w, err)
	}
	return unproven(abi.CodeInternal, "instance of node "+node.Name, w, err)
}

// saidGone reports whether an answer names the node's instance and says by its
// status or a word of the cloud that it does not exist.
func (p *provider) saidGone(w *witness, node *abi.Node) bool {
	gone, ids := p.goneWords(), identities(node)
	return slices.ContainsFunc(w.answers, func(a answer) bool {
		return (a.hasWord(gone) || a.empty(p.empty)) && a.names(ids) || a.notFound(ids) && p.known.understood(&a, node)
	})
}

// instanceFailure is a provider's error about an instance. If it has no reason,
// such as AWS' about power, the cloud may have said that the instance is gone.
// "Not found" must come from the cloud, but deletes nothing here: any complete
// list will do.
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

// listed reports whether a complete list has another known instance, and no
// answer names this one. An answer that says nothing may be the page of the
// list with its name.
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

// balancerGone returns nil if the cloud said that the load balancer does not
// exist: by a status, a word, or a list, even an empty one, since clouds look
// load balancers up by name. A provider that made no request decided by the
// Service alone.
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

// heard returns nil if each answer that a provider may have taken for "nothing"
// says something.
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
