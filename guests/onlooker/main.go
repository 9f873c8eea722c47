// Command onlooker is a provider that tells what it sees of the cluster by the
// capability kube, for the tests of the host. The annotation
// onlooker.example.com/ask of a Service says what lb_ensure asks:
//
//	read RESOURCE [NAMESPACE [NAME]]   what has changed since this instance asked before
//	annotate KEY VALUE                 this Service
//	label KEY VALUE                    this Service
//	unlabel KEY                        this Service
//	annotate-other NAME KEY VALUE      another Service of its namespace
//
// The answer is an Event Seen on the Service, or an error.
//
// The configuration tick=10s has it tick with that period. A tick writes into the
// log what has changed of the Nodes; with tick-fails in the configuration it fails.
package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

const annotation = "onlooker.example.com/ask"

type provider struct {
	caches map[string]*sdk.KubeCache // by request
	fails  bool
	nodes  sdk.KubeCache
}

var (
	_ sdk.LoadBalancers = (*provider)(nil)
	_ sdk.Ticker        = (*provider)(nil)
)

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "onlooker", Version: version, ProviderName: "onlooker"}
}

func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	p.caches, p.nodes = map[string]*sdk.KubeCache{}, sdk.KubeCache{Resource: "nodes"}
	var configured sdk.Configured
	for _, word := range strings.Fields(string(config.Bytes)) {
		period, ticks := strings.CutPrefix(word, "tick=")
		switch {
		case ticks:
			var err error
			if configured.TickPeriod, err = time.ParseDuration(period); err != nil {
				return configured, sdk.Invalidf("%s: %v", word, err)
			}
		case word == "tick-fails":
			p.fails = true
		default:
			return configured, sdk.Invalidf("%q is not known", word)
		}
	}
	return configured, nil
}

// Tick is sdk.Ticker's.
func (p *provider) Tick(op *sdk.Op, clusterName string) error {
	if p.fails {
		return sdk.Error(abi.CodeUnavailable, "the configuration says tick-fails")
	}
	changes, err := p.nodes.Sync(op)
	if err != nil {
		return err
	}
	op.Info("ticked", "cluster", clusterName, "changes", strconv.Itoa(changes), "nodes", strconv.Itoa(len(p.nodes.All())))
	return nil
}

func (p *provider) Probe(*sdk.Op) (string, error) { return "it looks on", nil }

func (p *provider) GetLoadBalancer(_ *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	if status := request.Service.Status; status == nil || len(status.Ingress) == 0 {
		return sdk.DoesNotExist, nil, nil
	}
	return sdk.Exists, request.Service.Status, nil
}

func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	return request.Service.Uid, nil
}

func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	if err := p.ask(op, request.Service); err != nil {
		return nil, err
	}
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}, nil
}

func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return p.ask(op, request.Service)
}

func (p *provider) DeleteLoadBalancer(*sdk.Op, *abi.LoadBalancerRequest) error { return nil }

// ask obeys the annotation.
func (p *provider) ask(op *sdk.Op, service *abi.Service) error {
	words := strings.Fields(service.Annotations[annotation])
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "read" && len(words) >= 2:
		return p.read(op, append(words[1:], "", "")[:3])
	case words[0] == "annotate" && len(words) == 3:
		return change(op, service, service.Name, &abi.KubePatch{Uid: service.Uid, Annotations: map[string]string{words[1]: words[2]}})
	case words[0] == "annotate-other" && len(words) == 4:
		return change(op, service, words[1], &abi.KubePatch{Annotations: map[string]string{words[2]: words[3]}})
	case words[0] == "label" && len(words) == 3:
		return change(op, service, service.Name, &abi.KubePatch{Labels: map[string]string{words[1]: words[2]}})
	case words[0] == "unlabel" && len(words) == 2:
		return change(op, service, service.Name, &abi.KubePatch{RemoveLabels: words[1:]})
	}
	return sdk.Invalidf("%s: %q is not known", annotation, words[0])
}

func (p *provider) read(op *sdk.Op, what []string) error {
	cache := p.caches[strings.Join(what, " ")]
	if cache == nil {
		cache = &sdk.KubeCache{Resource: what[0], Namespace: what[1], Name: what[2]}
		p.caches[strings.Join(what, " ")] = cache
	}
	changes, err := cache.Sync(op)
	if err != nil {
		return err
	}
	var names []string
	for name := range cache.All() {
		names = append(names, strings.TrimPrefix(name.Namespace+"/"+name.Name, "/"))
	}
	slices.Sort(names)
	return op.Event(false, "Seen", strconv.Itoa(changes)+" changes of "+what[0]+", there are now: "+strings.Join(names, " "))
}

func change(op *sdk.Op, service *abi.Service, name string, patch *abi.KubePatch) error {
	_, err := op.Kube(&abi.KubeRequest{Resource: "services", Namespace: service.Namespace, Name: name, Patch: patch})
	return err
}
