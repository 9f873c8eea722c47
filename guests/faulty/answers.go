package main

import (
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// inbornMark is how tests find inborn in a module.
const inbornMark = "inborn:"

// inborn are lines of configuration inside a build, added to the given ones.
// Tests write others, of the same length, into the module: then two modules
// differ while their configuration is the same.
var inborn = inbornMark + "                                                                                                "

// withInborn adds these lines to a configuration.
func withInborn(config string) string {
	return config + "\n" + strings.TrimSpace(strings.TrimPrefix(inborn, inbornMark))
}

// answer is the metadata of an instance as metadata= wants it; nil if that does
// not set the answer.
func (p *provider) answer(node *abi.Node) *abi.InstanceMetadata {
	switch {
	case p.metadata == "trap", p.metadata == "trap-later" && node.ProviderId != "":
		panic("as metadata=trap of the configuration asks")
	}
	switch p.metadata {
	case "hang":
		time.Sleep(10 * time.Hour)
	case "empty":
		return &abi.InstanceMetadata{}
	case "busy":
		p.compute(p.slow["metadata"])
		return nil
	}
	time.Sleep(p.slow["metadata"])
	return nil
}

// compute uses the guest's time, and no other.
func (p *provider) compute(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range uint32(1 << 20) {
			p.sum += i * i
		}
	}
}

// trespass changes something in the cloud in a read-only op, with sneak=on. It
// ignores the outcome.
func (p *provider) trespass(op *sdk.Op) {
	if !p.sneak {
		return
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		_, _ = p.send(op, method, "/lb/sneaked", "by an op that reads")
	}
}
