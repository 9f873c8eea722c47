// Command faulty is a provider that misbehaves on demand, for the tests of the
// host. A Service says by its annotations what its ops do, the configuration
// what the rest does.
//
// Annotations faulty.example.com/ensure, /update and /delete of a Service:
//
//	hang         sleeps for hours
//	spin         computes for ever
//	cloud        asks a cloud that never answers
//	trap         panics
//	slow:8s      takes that long, and is done then
//	crash:HOW    makes a mistake: nil-map, index, memory or stack; see crash.go
//	fail:CODE:TEXT answers an error, such as fail:invalid:no such pool; with
//	             retry_after and throttled, after an hour
//	leak         tells in an Event and its error what the cloud reflects
//
// Configuration, one word=value per line:
//
//	cloud=URL         what the annotations cloud and leak ask
//	exists=yes        every instance exists (the default)
//	exists=no         no instance exists
//	exists=flaky      as no, but the first answer of each instance of the guest is yes
//	count=URL         a cloud that keeps load balancers, routes and servers; see cloud.go
//	credential=cloud  goes with the requests to the cloud of count
//	scheme=TEXT       of the provider IDs, instead of faulty
//	zone=TEXT         of every instance
//	zone=random       another one each time, by crypto/rand
//	trap=N            every N-th op of an instance of the guest panics
//	configure=slow:3s takes that long to be configured, as does each new instance
//	metadata=slow:3s  takes that long to tell of an instance
//	metadata=busy:3s  computes so long for it
//	metadata=HOW      trap, hang, or an answer that is empty; trap-later for a Node that has a provider ID
//	sneak=on          ops that read try to write as well, at the cloud of count
//	probe=slow:3s     the probe takes that long
//	probe=fail        the probe fails
//	probe=cloud       the probe asks the cloud of count
//	lb=off            no load balancers
//	routes=on         routes, which the cloud of count keeps
package main

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

const annotation = "faulty.example.com/"

type provider struct {
	settings
	ops   int    // of this instance, without those of loading it
	op    abi.Op // the last of them
	asked int    // about existence, in this instance
	sum   uint32
	pool  pool
}

var (
	_ sdk.Instances     = (*provider)(nil)
	_ sdk.LoadBalancers = (*provider)(nil)
	_ sdk.Routes        = (*provider)(nil)
)

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "faulty", Version: version, ProviderName: "faulty"}
}

func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	settings, err := parse(withInborn(string(config.Bytes)))
	if err != nil {
		return sdk.Configured{}, err
	}
	p.settings = settings
	time.Sleep(p.slow["configure"])
	configured := sdk.Configured{}
	if p.noBalancers {
		configured.DisabledOps = append(configured.DisabledOps, abi.OpLoadBalancerGet)
	}
	if !p.routes {
		configured.DisabledOps = append(configured.DisabledOps, abi.OpRouteList)
	}
	return configured, nil
}

func (p *provider) Probe(op *sdk.Op) (string, error) {
	p.op = abi.OpProbe
	time.Sleep(p.slow["probe"])
	switch p.probe {
	case "fail":
		return "", sdk.Error(abi.CodeUnavailable, "the configuration says probe=fail")
	case "cloud":
		if _, _, err := p.get(op, "/probe"); err != nil {
			return "", err
		}
	}
	return "as faulty as ever", nil
}

// step begins every op but those of loading.
func (p *provider) step(op abi.Op) {
	p.ops, p.op = p.ops+1, op
	if p.trap > 0 && p.ops%p.trap == 0 {
		panic("as trap= of the configuration asks")
	}
}

// misbehave obeys the Service's annotation.
func (p *provider) misbehave(op *sdk.Op, service *abi.Service, what string) error {
	how, argument := cut(service.Annotations[annotation+what], ":")
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
	case "crash":
		return p.crash(argument, service.Uid)
	case "fail":
		return fail(argument)
	case "leak":
		return p.leak(op)
	}
	return nil
}

// fail answers CODE:TEXT.
func fail(argument string) error {
	name, text := cut(argument, ":")
	for code := abi.CodeInternal; code.Known(); code++ {
		if code.String() == name {
			err := &abi.Error{Code: code, Message: text}
			if code == abi.CodeRetryAfter || code == abi.CodeThrottled {
				err.RetryAfter = time.Hour
			}
			return err
		}
	}
	return sdk.Invalidf("no code %q", name)
}

// spin computes a value, or the compiler would remove the loop.
func (p *provider) spin() {
	for i := uint32(0); ; i++ {
		p.sum += i * i
	}
}

// leak reports the cloud's answer everywhere.
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
