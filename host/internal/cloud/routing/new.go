package routing

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// New returns the router of the providers, or every mistake in their rules at once. With one
// provider with empty rules everything belongs to it, and nothing is written to any object.
func New(rules []Rules) (*Router, error) {
	t, err := newTable(rules)
	if err != nil {
		return nil, err
	}
	r := &Router{peers: map[string]*peer{}, changed: make(chan struct{})}
	r.current.Store(t)
	return r, nil
}

// Next are valid rules that are not yet in force.
type Next struct {
	router *Router
	table  *table
}

// Next checks new rules, without blocking other callers.
func (r *Router) Next(rules []Rules) (*Next, error) {
	t, err := newTable(rules)
	if err != nil {
		return nil, err
	}
	return &Next{r, t}, nil
}

// Differs reports whether the next rules give the provider other objects; then its service
// loop must be stopped for the change: it would delete the load balancers of Services that
// disappear from its view.
func (n *Next) Differs(provider string) bool {
	now := n.router.table()
	before, after := now.rules[provider], n.table.rules[provider]
	before.VolumeDrivers, before.VolumeSchemes, after.VolumeDrivers, after.VolumeSchemes = nil, nil, nil, nil
	return now.everything != n.table.everything || !reflect.DeepEqual(before, after)
}

// Replace puts the rules into force, all at once. Clouds of providers without rules are no
// longer asked.
func (n *Next) Replace() {
	r := n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	// Invariant P1 (host/SECURITY.md): a reader sees the old rules or the new ones, never a
	// mixture.
	r.current.Store(n.table)
	for name := range r.peers {
		if !n.table.known(name) {
			delete(r.peers, name)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func newTable(rules []Rules) (*table, error) {
	t := &table{
		everything: len(rules) == 1 && rules[0].empty(), rules: map[string]Rules{},
		schemes: map[string]string{}, drivers: map[string]string{}, volumeSchemes: map[string]string{}, classes: map[string]string{},
	}
	var mistakes []error
	for _, rule := range rules {
		mistakes = append(mistakes, t.add(rule)...)
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	return t, nil
}

func (t *table) add(rule Rules) (mistakes []error) {
	for _, text := range validation.IsDNS1123Label(rule.Provider) {
		mistakes = append(mistakes, fmt.Errorf("provider %q: the name is not valid: %s", rule.Provider, text))
	}
	if t.known(rule.Provider) {
		// Further checks of it would only repeat the mistake.
		return append(mistakes, fmt.Errorf("provider %q is there twice; give each its own name", rule.Provider))
	}
	t.names = append(t.names, rule.Provider)
	t.rules[rule.Provider] = rule
	schemes := rule.Schemes
	if len(schemes) == 0 {
		schemes = []string{rule.Provider}
	}
	mistakes = append(mistakes, put(t.schemes, rule.Provider, "scheme", schemes, validScheme)...)
	mistakes = append(mistakes, put(t.drivers, rule.Provider, "volume driver", rule.VolumeDrivers, validDriver)...)
	mistakes = append(mistakes, put(t.volumeSchemes, rule.Provider, "volume scheme", rule.VolumeSchemes, validScheme)...)
	mistakes = append(mistakes, put(t.classes, rule.Provider, "load balancer class", rule.Classes, validClass)...)
	if rule.AskNodes {
		t.ask = append(t.ask, rule.Provider)
	}
	if rule.DefaultServices && t.defaultService != "" {
		mistakes = append(mistakes, fmt.Errorf("provider %q: the default for Services is already provider %q; there can be one", rule.Provider, t.defaultService))
	} else if rule.DefaultServices {
		t.defaultService = rule.Provider
	}
	return mistakes
}

// put assigns the values to the provider.
func put(owners map[string]string, provider, what string, values []string, valid func(string) bool) (mistakes []error) {
	for _, value := range values {
		owner, taken := owners[value]
		switch {
		case !valid(value):
			mistakes = append(mistakes, fmt.Errorf("provider %q: %q is no %s", provider, value, what))
		case taken && owner != provider:
			mistakes = append(mistakes, fmt.Errorf("provider %q: the %s %q is already that of provider %q", provider, what, value, owner))
		default:
			owners[value] = provider
		}
	}
	return mistakes
}

// validScheme accepts texts that can stand before "://"; a whole ProviderID is a mistake.
func validScheme(scheme string) bool { return scheme != "" && !strings.ContainsAny(scheme, ":/ \t\n") }

func validDriver(driver string) bool { return driver != "" && !strings.ContainsAny(driver, " \t\n") }

// validClass is the rule of the API server for spec.loadBalancerClass.
func validClass(class string) bool { return len(validation.IsQualifiedName(class)) == 0 }

// configured lists the names for people.
func (t *table) configured() string {
	names := slices.Sorted(slices.Values(t.names))
	return strings.Join(names, ", ")
}
