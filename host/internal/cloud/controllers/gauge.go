package controllers

import (
	"sync"

	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

// gauge is that of a running controller, whose label manager changes when there
// is another number of providers. Upstream's controllers set it when they begin
// and end; what they were given at their begin stays theirs.
type gauge struct {
	mu sync.Mutex
	// name is the value of the label now; "" is upstream's.
	name string
	// given is what the controller that runs was given; nil: none runs.
	given *controllersmetrics.ControllerManagerMetrics
	// shown is what shows it instead; nil: given does.
	shown *controllersmetrics.ControllerManagerMetrics
}

// gaugeNames are upstream's names of its controllers in the gauge.
func gaugeNames() map[string]string {
	return map[string]string{
		names.CloudNodeController: "cloud-node", names.CloudNodeLifecycleController: "cloud-node-lifecycle",
		names.ServiceLBController: "service", names.NodeRouteController: "route",
	}
}

// give returns what the next incarnation is given.
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

// renameGauge shows the controller that runs by another name.
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
