package controllers

import (
	"sync"

	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

// gauge is the metric of a running controller. Its label manager depends on the number of
// providers. Upstream's controllers set the gauge at their start and end, and keep the
// labels of their start.
type gauge struct {
	mu sync.Mutex
	// name is the current value of the label; "" is upstream's.
	name string
	// given is the metric of the running controller; nil: none runs.
	given *controllersmetrics.ControllerManagerMetrics
	// shown replaces given under another label; nil: given is shown.
	shown *controllersmetrics.ControllerManagerMetrics
}

// gaugeNames are upstream's names of its controllers in the gauge.
func gaugeNames() map[string]string {
	return map[string]string{
		names.CloudNodeController: "cloud-node", names.CloudNodeLifecycleController: "cloud-node-lifecycle",
		names.ServiceLBController: "service", names.NodeRouteController: "route",
	}
}

// giveGauge returns the metric for the next incarnation.
func (s *supervisor) giveGauge() *controllersmetrics.ControllerManagerMetrics {
	g := &s.gauge
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown, g.given = nil, s.metricsOf(g.name)
	return g.given
}

func (s *supervisor) metricsOf(name string) *controllersmetrics.ControllerManagerMetrics {
	if name == "" {
		return s.manager.ControllerManagerMetrics
	}
	return controllersmetrics.NewControllerManagerMetrics(name)
}

// renameGauge shows the running controller under another name.
func (s *supervisor) renameGauge(name string) {
	g, controller := &s.gauge, gaugeNames()[s.loop.name]
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == g.name {
		return
	}
	g.name = name
	if g.given == nil || controller == "" {
		return
	}
	if g.shown == nil {
		g.given.ControllerStopped(controller)
	} else {
		g.shown.ControllerStopped(controller)
	}
	g.shown = s.metricsOf(name)
	g.shown.ControllerStarted(controller)
}

// takeGauge is called when the incarnation has ended.
func (s *supervisor) takeGauge() {
	g := &s.gauge
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shown != nil {
		g.shown.ControllerStopped(gaugeNames()[s.loop.name])
	}
	g.given, g.shown = nil, nil
}
