package shadow

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// The approximate memory of a sample and of a host call beside their bytes.
const (
	sampleOverhead = 512
	callOverhead   = 96
)

// Sample is one answered op with its host calls. It never changes and is safe for concurrent
// use. It may hold secrets: it is for a Rehearsal only.
type Sample struct {
	op       abi.Op
	key      sampleKey
	request  string
	code     abi.Code
	response string
	calls    []call
	bytes    int
}

// call is one host call and its answer.
type call struct {
	name, request string
	code          abi.Code
	result        string
}

// Question repeats the op, with the same answers of the cloud.
func (s *Sample) Question() Question {
	return Question{Op: s.op, Request: []byte(s.request), sample: s}
}

// objectOf reads only the name: the rest of a request is the object's state.
func objectOf(op abi.Op, request []byte) string {
	switch group := op.Group(); {
	case op == abi.OpListInstances: // without an object
	case group == abi.GroupInstances, group == abi.GroupVolumes: // name of a node or volume
		return string(wire.Find(request, 1, 1))
	case group == abi.GroupLoadBalancers:
		if service := wire.Find(request, 2); service != nil {
			return string(wire.Find(service, 1)) + "/" + string(wire.Find(service, 2))
		}
	}
	return ""
}

func (s *Sample) outcome() outcome { return outcome{code: s.code, response: []byte(s.response)} }

// outcome is the outcome of an op.
type outcome struct {
	code     abi.Code
	response []byte
	err      error
}

// newOutcome treats an error code of the guest as an answer.
func newOutcome(code abi.Code, response []byte, err error) outcome {
	switch {
	case err != nil:
		if answer, ok := errors.AsType[*abi.Error](err); ok {
			code, response, err = answer.Code, nil, nil
		}
	case !code.Known():
		err = errors.New("the answer has an unknown code")
	case code == abi.CodeOK && response == nil:
		err = errors.New("success without a response")
	}
	return outcome{code: code, response: response, err: err}
}

// proper reports whether the outcome says something about the cloud. The other codes mean
// that the cloud could not be asked.
func (o outcome) proper() bool {
	if o.err != nil {
		return false
	}
	switch o.code {
	case abi.CodeOK, abi.CodeInvalid, abi.CodeNotFound, abi.CodeInstanceNotFound,
		abi.CodeNotImplemented, abi.CodeImplementedElsewhere:
		return true
	}
	return false
}
