package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// scope is the scope of a token, in the Identity API's form. The zero value
// leaves it to Keystone, which takes the user's default project.
type scope struct {
	Project  *object `json:"project,omitempty"`
	Domain   *object `json:"domain,omitempty"`
	System   *system `json:"system,omitempty"`
	unscoped bool
}

// object identifies a project, a domain or a user by its ID, or by its name and
// domain.
type object struct {
	ID       string  `json:"id,omitempty"`
	Name     string  `json:"name,omitempty"`
	Domain   *object `json:"domain,omitempty"`
	Password string  `json:"password,omitempty"` // of a user
}

type system struct {
	All bool `json:"all"`
}

func (s *scope) isZero() bool { return *s == scope{} }

// body is the field scope of a token request; nil omits it.
func (s *scope) body() any {
	switch {
	case s.unscoped:
		return "unscoped"
	case s.isZero():
		return nil
	}
	return s
}

// scopeKeys are the keys of the scope in the section auth of clouds.yaml.
func scopeKeys() []string {
	return []string{
		"project_id", "project_name", "project_domain_id", "project_domain_name",
		"domain_id", "domain_name", "system_scope",
	}
}

// scopeOf makes a scope from values of scopeKeys.
func scopeOf(values map[string]string) (scope, error) {
	var s scope
	project := objectOf(values, "project")
	domain := objectOf(values, "domain")
	n := 0
	if project != nil {
		s.Project, n = project, n+1
		if project.ID == "" && (project.Name == "" || project.Domain == nil) {
			return s, errors.New("a project is named by project_id, or by project_name with project_domain_name or project_domain_id")
		}
	}
	if domain != nil {
		s.Domain, n = domain, n+1
	}
	switch values["system_scope"] {
	case "":
	case "all":
		s.System, n = &system{All: true}, n+1
	default:
		return s, errors.New("system_scope can only be all")
	}
	if n > 1 {
		return s, errors.New("a token has one scope: give a project, a domain or system_scope")
	}
	return s, nil
}

// objectOf reads KIND_id, KIND_name and KIND_domain_id or KIND_domain_name; nil
// if there is none of them. An ID suffices.
func objectOf(values map[string]string, kind string) *object {
	o := &object{ID: values[kind+"_id"], Name: values[kind+"_name"]}
	if o.ID != "" {
		return &object{ID: o.ID}
	}
	if kind == "domain" {
		if o.Name == "" {
			return nil
		}
		return o
	}
	if o.Domain = objectOf(map[string]string{
		"domain_id": values[kind+"_domain_id"], "domain_name": values[kind+"_domain_name"],
	}, "domain"); o.Domain == nil && o.Name == "" {
		return nil
	}
	return o
}

// parseScope reads the name that a provider uses: project:ID, domain:ID, system
// or unscoped.
func parseScope(name string) (scope, error) {
	kind, id, _ := strings.Cut(name, ":")
	switch {
	case name == "system":
		return scope{System: &system{All: true}}, nil
	case name == "unscoped":
		return scope{unscoped: true}, nil
	case kind == "project" && isID(id):
		return scope{Project: &object{ID: id}}, nil
	case kind == "domain" && isID(id):
		return scope{Domain: &object{ID: id}}, nil
	}
	return scope{}, sdk.Invalidf("the scope %.100q is none of project:ID, domain:ID, system and unscoped", name)
}

// isID: Keystone's IDs are UUIDs, hashes, or words such as default.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// wanted returns the scope that a provider names; empty is the default. The
// configuration lists the other allowed names: a user often has more roles than
// the provider should have.
func (c *config) wanted(name string, byDefault scope) (scope, error) {
	if name == "" {
		return byDefault, nil
	}
	s, err := parseScope(name)
	if err != nil {
		return s, err
	}
	kind, _, _ := strings.Cut(name, ":")
	isDefault := s.Project != nil && byDefault.Project != nil && *s.Project == *byDefault.Project ||
		s.Domain != nil && byDefault.Domain != nil && *s.Domain == *byDefault.Domain
	if isDefault || slices.Contains(c.allowed, name) || slices.Contains(c.allowed, kind+":*") {
		return s, nil
	}
	return s, sdk.Invalidf("the scope %s is not among the allowed_scopes in the configuration of signer-keystone", name)
}

// check compares a token's scope with the wanted one: an application credential
// always has its own.
func (s *scope) check(got *scope) error {
	switch {
	case s.Project != nil && !s.Project.matches(got.Project):
		return sdk.Invalidf("Keystone gave no token for the wanted project: an application credential is good for the project that it was made in")
	case s.Domain != nil && !s.Domain.matches(got.Domain), s.System != nil && (got.System == nil || !got.System.All):
		return sdk.Invalidf("Keystone gave no token for the wanted domain or system")
	case s.unscoped && (got.Project != nil || got.Domain != nil || got.System != nil):
		return sdk.Invalidf("Keystone gave no unscoped token")
	}
	return nil
}

// matches ignores the case of names, as Keystone's usual databases do.
func (o *object) matches(got *object) bool {
	return got != nil && (o.ID == "" || o.ID == got.ID) && (o.Name == "" || strings.EqualFold(o.Name, got.Name)) &&
		(o.Domain == nil || o.Domain.matches(got.Domain))
}
