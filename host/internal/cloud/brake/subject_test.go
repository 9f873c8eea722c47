package brake_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

// newSubject is what is simulated: the brake of a manager that has just
// started. It is all of the simulation that knows how a brake is made, so that
// it can drive another one as well.
func newSubject(w *world) cloudprovider.InstancesV2 {
	options := brake.Options{Limits: shipped()}
	options.Cluster = func() corelisters.NodeLister { return w.lister }
	options.Heartbeats = w.heartbeats
	options.Ledger = &w.ledger
	options.Observer = w
	options.Clock = clock.RealClock{}
	return brake.New(instances{w: w}, options)
}

// shipped are the limits of a configuration that says nothing of the brake. The
// simulation holds the subject to them.
func shipped() brake.Limits {
	var c v1alpha1.HostConfiguration
	v1alpha1.SetDefaults(&c)
	b := c.DeletionBrake
	return brake.Limits{Percent: b.Percent, Nodes: b.Nodes, Period: b.Period.Duration, Settle: b.Settle.Duration}
}

// World is an Observer that counts.

func (w *world) Held(_ *corev1.Node, hold brake.Hold) {
	w.line(fmt.Sprint("held ", hold.Reason))
}
func (w *world) Explain(*corev1.Node, brake.Hold) bool { return true }
func (w *world) LetGo(*corev1.Node) { // no line of the log
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events["let go"]++
}

func (w *world) Contradicted(_ *corev1.Node, by string) {
	w.mu.Lock()
	w.denied = append(w.denied, time.Now())
	w.mu.Unlock()
	w.line("contradicted by " + by)
}
func (w *world) Engaged(brake.Status)        { w.line("engaged") }
func (w *world) Failed(what string, _ error) { w.line("failed " + what) }
func (w *world) Seen(brake.Status)           {}
