package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// New returns the router of the providers, or every mistake in their rules at
// once. With one provider whose rules are empty everything belongs to it, and
// nothing is written to any object.
func New(rules []Rules) (*Router, error) {
	r := &Router{
		everything: len(rules) == 1 && rules[0].empty(),
		schemes:    map[string]string{}, drivers: map[string]string{}, volumeSchemes: map[string]string{},
		peers: map[string]*peer{},
	}
	var mistakes []error
	if len(rules) == 0 {
		mistakes = append(mistakes, errors.New("there is no provider"))
	}
	for _, rule := range rules {
		mistakes = append(mistakes, r.add(rule)...)
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	return r, nil
}

func (r *Router) add(rule Rules) (mistakes []error) {
	for _, text := range validation.IsDNS1123Label(rule.Provider) {
		mistakes = append(mistakes, fmt.Errorf("provider %q: the name is not valid: %s", rule.Provider, text))
	}
	if r.known(rule.Provider) {
		// What else it says would only repeat the mistake.
		return append(mistakes, fmt.Errorf("provider %q is there twice; give each its own name", rule.Provider))
	}
	r.names = append(r.names, rule.Provider)
	schemes := rule.Schemes
	if len(schemes) == 0 {
		schemes = []string{rule.Provider}
	}
	mistakes = append(mistakes, put(r.schemes, rule.Provider, "scheme", schemes, validScheme)...)
	mistakes = append(mistakes, put(r.drivers, rule.Provider, "volume driver", rule.VolumeDrivers, validDriver)...)
	mistakes = append(mistakes, put(r.volumeSchemes, rule.Provider, "volume scheme", rule.VolumeSchemes, validScheme)...)
	if rule.AskNodes {
		r.ask = append(r.ask, rule.Provider)
	}
	if rule.DefaultServices && r.defaultService != "" {
		mistakes = append(mistakes, fmt.Errorf("provider %q: the default for Services is already provider %q; there can be one", rule.Provider, r.defaultService))
	} else if rule.DefaultServices {
		r.defaultService = rule.Provider
	}
	return mistakes
}

// put notes that the values are the provider's.
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

// validScheme takes what can stand before "://"; who writes a ProviderID there
// has made a mistake.
func validScheme(scheme string) bool { return scheme != "" && !strings.ContainsAny(scheme, ":/ \t\n") }

func validDriver(driver string) bool { return driver != "" && !strings.ContainsAny(driver, " \t\n") }

// configured lists the names for people.
func (r *Router) configured() string {
	names := slices.Sorted(slices.Values(r.names))
	return strings.Join(names, ", ")
}
