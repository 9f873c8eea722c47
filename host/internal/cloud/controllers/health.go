package controllers

import (
	"errors"
	"fmt"
	"net/http"

	kubehealthz "k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
)

// supervised is one kind of control loop of all providers.
type supervised struct {
	name string
	all  *Loops
}

// Name implements controller.Interface.
func (s supervised) Name() string { return s.name }

// HealthChecker implements controller.HealthCheckable.
func (s supervised) HealthChecker() healthz.UnnamedHealthChecker { return s }

// Check asks every provider, and every running loop that has a check.
func (s supervised) Check(request *http.Request) error {
	var failures []error
	for _, one := range s.all.each(s.name) {
		if err := one.check(request); err != nil {
			failures = append(failures, fmt.Errorf("provider %q: %w", one.provider.Name, err))
		}
	}
	return errors.Join(failures...)
}

func (s *supervisor) check(request *http.Request) error {
	if s.provider.Healthy != nil {
		if err := s.provider.Healthy(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current == nil {
		return nil
	}
	checkable, ok := current.controller.(controller.HealthCheckable)
	if !ok || checkable.HealthChecker() == nil {
		return nil
	}
	return checkable.HealthChecker().Check(request)
}

// Checks returns those of /healthz, one for each kind of loop, running or not.
func (l *Loops) Checks() (all []kubehealthz.HealthChecker) {
	for _, one := range loops() {
		all = append(all, kubehealthz.NamedCheck(one.name, supervised{name: one.name, all: l}.Check))
	}
	return all
}
