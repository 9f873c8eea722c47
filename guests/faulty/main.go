// Command faulty is a provider that misbehaves on demand, for the tests of the
// host. A Service says by its annotations what its ops do, the configuration
// what is answered about instances.
//
// Annotations faulty.example.com/ensure, /update and /delete of a Service:
//
//	hang         sleeps for hours
//	spin         computes for ever
//	cloud        asks a cloud that never answers
//	trap         panics
//	slow:8s      takes that long, and is done then
//	leak         tells in an Event and its error what the cloud reflects
//
// Configuration, one word=value per line:
//
//	cloud=URL    what the annotations cloud and leak ask
//	exists=yes   every instance exists (the default)
//	exists=no    no instance exists
//	exists=flaky as no, but the first answer of each instance of the guest is yes
package main

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{exists: "yes"}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

const (
	scheme     = "faulty://"
	annotation = "faulty.example.com/"
)

type provider struct {
	cloud  string
	exists string
	asked  int // about existence, in this instance
	sum    uint32
}

var (
	_ sdk.Instances     = (*provider)(nil)
	_ sdk.LoadBalancers = (*provider)(nil)
)

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "faulty", Version: version, ProviderName: "faulty"}
}

func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	for i, line := range strings.Split(strings.TrimSpace(string(config.Bytes)), "\n") {
		word, value, _ := strings.Cut(line, "=")
		switch word {
		case "":
		case "cloud":
			p.cloud = value
		case "exists":
			p.exists = value
		default:
			return sdk.Configured{}, sdk.Invalidf("line %d: %q is not known", i+1, word)
		}
	}
	return sdk.Configured{HasClusterID: true}, nil
}

func (p *provider) Probe(*sdk.Op) (string, error) { return "as faulty as ever", nil }

func (p *provider) InstanceExists(*sdk.Op, *abi.Node) (sdk.Existence, error) {
	p.asked++
	if p.exists == "yes" || p.exists == "flaky" && p.asked == 1 {
		return sdk.Exists, nil
	}
	return sdk.DoesNotExist, nil
}

func (p *provider) InstanceShutdown(*sdk.Op, *abi.Node) (sdk.PowerState, error) { return sdk.On, nil }

func (p *provider) InstanceMetadata(_ *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	return &abi.InstanceMetadata{
		ProviderId: scheme + node.Name,
		Addresses:  []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: address(10, node.Name)}},
	}, nil
}

// address is one that belongs to the text, of the network first/8.
func address(first int, text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	n := h.Sum32()
	return strconv.Itoa(first) + "." + strconv.Itoa(int(n>>16&0xff)) + "." + strconv.Itoa(int(n>>8&0xff)) + "." + strconv.Itoa(int(n&0xff))
}

func status(service *abi.Service) *abi.LoadBalancerStatus {
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: address(198, service.Uid)}}}
}

func (p *provider) GetLoadBalancer(_ *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	return sdk.Exists, status(request.Service), nil
}

func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	return "lb-" + request.Service.Uid, nil
}

func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	return status(request.Service), p.misbehave(op, request.Service, "ensure")
}

func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return p.misbehave(op, request.Service, "update")
}

func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return p.misbehave(op, request.Service, "delete")
}

func (p *provider) misbehave(op *sdk.Op, service *abi.Service, what string) error {
	how, argument, _ := strings.Cut(service.Annotations[annotation+what], ":")
	switch how {
	case "hang":
		time.Sleep(10 * time.Hour)
	case "spin":
		p.spin()
	case "trap":
		panic("as the annotation of the Service asks")
	case "slow":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return sdk.Invalidf("annotation %s: %v", annotation+what, err)
		}
		time.Sleep(d)
	case "cloud":
		_, err := op.HTTP().Do(&abi.HttpRequest{Method: "GET", Url: p.cloud})
		return err
	case "leak":
		return p.leak(op)
	}
	return nil
}

// spin computes something, or the compiler would leave out the loop.
func (p *provider) spin() {
	for i := uint32(0); ; i++ {
		p.sum += i * i
	}
}

// leak tells everybody what the cloud answered.
func (p *provider) leak(op *sdk.Op) error {
	response, err := op.HTTP().Do(&abi.HttpRequest{Method: "GET", Url: p.cloud, Credential: "cloud"})
	if err != nil {
		return err
	}
	all := string(response.Body)
	for _, h := range response.Headers {
		all += "\n" + h.Name + ": " + h.Value
	}
	op.Info("leak " + clip(all, 4000))
	if err := op.Event(false, "Leak", clip(all, 900)); err != nil {
		return err
	}
	return sdk.Error(abi.CodeInternal, "leak "+clip(all, 900))
}

func clip(s string, most int) string { return s[:min(len(s), most)] }
