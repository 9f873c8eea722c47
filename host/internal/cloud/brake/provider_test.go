package brake_test

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// says is what a provider answers about a machine.
type says func(w *world, m *machine, fresh bool) (exists bool, err error)

func honest(_ *world, m *machine, _ bool) (bool, error) { return m.exists && m.listed, nil }

// emptyList is an API that answers an empty list, or the wrong project.
func emptyList(*world, *machine, bool) (bool, error) { return false, nil }

// exactly says of all that are silent, and of no others, that they are gone.
func exactly(_ *world, m *machine, _ bool) (bool, error) {
	return m.exists && m.silent.IsZero(), nil
}

// withoutZone is a list in which a zone is missing.
func withoutZone(zone string) says {
	return func(_ *world, m *machine, _ bool) (bool, error) { return m.exists && m.zone != zone, nil }
}

// forgetful says one thing and, asked afresh, another.
func forgetful(_ *world, m *machine, fresh bool) (bool, error) { return m.exists && fresh, nil }

func unreachable(*world, *machine, bool) (bool, error) {
	return false, errors.New("503 Service Unavailable")
}

// instances answers as the world's says.
type instances struct {
	cloudprovider.InstancesV2
	w *world
}

func (p instances) ask(node *corev1.Node, fresh bool) (bool, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.says(p.w, p.w.machines[node.Name], fresh)
}

func (p instances) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return p.ask(node, false)
}

func (p instances) InstanceExistsFresh(_ context.Context, node *corev1.Node) (bool, error) {
	return p.ask(node, true)
}

func (instances) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }
