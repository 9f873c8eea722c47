package shadow

import (
	"encoding/binary"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// questionOf is what a read of kube is about, without its cursor. A patch is no
// read.
func questionOf(name string, request []byte) (question string, reads bool) {
	var m abi.KubeRequest
	if name != abi.CapabilityKube || wire.UnmarshalWithin(request, &m, wire.MaxRequestOverhead) != nil || m.GetPatch() != nil {
		return "", false
	}
	return fmt.Sprintf("%q %q %q", m.GetResource(), m.GetNamespace(), m.GetName()), true
}

// positionOf is the place of an answer in the changes, empty for one that is not
// the last of its op, or none.
func (h host) positionOf(code abi.Code, result []byte) []byte {
	var m abi.KubeResponse
	if code != abi.CodeOK || wire.Unmarshal(result, &m) != nil || m.GetMore() {
		return nil
	}
	return binary.LittleEndian.AppendUint64(nil, h.position(m.GetCursor()))
}

// read compares where the objects are now with where they were. A record of
// changes would be of no use: an instance that is asked again begins with everything.
func (p *player) read(question string, code abi.Code, now []byte) {
	if code == abi.CodeOK && now == nil {
		return // not the last page
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch then, result, ok := p.exact(abi.CapabilityKube, []byte(question)); {
	case !ok:
		p.noteMissing("reads objects of the cluster that were not read then: " + question)
	case then != code:
		p.noteMissing("reads objects of the cluster with another outcome than then: " + question)
	case string(result) != string(now):
		p.noteMissing("reads objects of the cluster that have changed since: " + question)
	}
}
