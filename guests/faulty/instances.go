package main

import (
	"crypto/rand"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) InstanceExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	p.step(abi.OpInstanceExists)
	if p.count != "" {
		return p.serverExists(op, node)
	}
	p.asked++
	if p.exists == "yes" || p.exists == "flaky" && p.asked == 1 {
		return sdk.Exists, nil
	}
	return sdk.DoesNotExist, nil
}

func (p *provider) InstanceShutdown(*sdk.Op, *abi.Node) (sdk.PowerState, error) {
	p.step(abi.OpInstanceShutdown)
	return sdk.On, nil
}

func (p *provider) InstanceMetadata(op *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	p.step(abi.OpInstanceMetadata)
	p.trespass(op)
	if answer := p.answer(node); answer != nil {
		return answer, nil
	}
	if p.count != "" {
		existence, err := p.serverExists(op, node)
		if err == nil && existence == sdk.DoesNotExist {
			err = sdk.InstanceNotFound("the cloud has no server " + node.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	zone, err := p.zoneOf()
	if err != nil {
		return nil, err
	}
	return &abi.InstanceMetadata{
		ProviderId: p.scheme + "://" + node.Name,
		Zone:       zone,
		Addresses:  []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: address(172, node.Name)}},
	}, nil
}

// zoneOf draws a random zone if configured.
func (p *provider) zoneOf() (string, error) {
	if p.zone != "random" {
		return p.zone, nil
	}
	var drawn [16]byte
	_, err := rand.Read(drawn[:])
	return hex.EncodeToString(drawn[:]), err
}

func (p *provider) serverExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	name := node.Name
	if node.ProviderId != "" {
		var ours bool
		if name, ours = strings.CutPrefix(node.ProviderId, p.scheme+"://"); !ours {
			return 0, sdk.Invalidf("the provider ID %q does not begin with %s://", node.ProviderId, p.scheme)
		}
	}
	_, found, err := p.get(op, "/server/"+name)
	switch {
	case err != nil:
		return 0, err
	case found:
		return sdk.Exists, nil
	}
	return sdk.DoesNotExist, nil
}

// address is derived from the text, in the network first/8.
func address(first int, text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	n := h.Sum32()
	return strconv.Itoa(first) + "." + strconv.Itoa(int(n>>16&0xff)) + "." + strconv.Itoa(int(n>>8&0xff)) + "." + strconv.Itoa(int(n&0xff))
}
