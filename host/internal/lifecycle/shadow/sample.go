package shadow

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// What a sample and a host call cost in memory beside their bytes, roughly.
const (
	sampleOverhead = 512
	callOverhead   = 96
)

// Sample is one op that was answered, with its host calls. It never changes
// and is safe for concurrent use. It may hold secrets: it is for a Rehearsal only.
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

// Question asks it again, with the same answers of the cloud.
func (s *Sample) Question() Question {
	return Question{Op: s.op, Request: []byte(s.request), sample: s}
}

func objectOf(op abi.Op, request []byte) string {
	m, _ := op.New()
	if m == nil || wire.Unmarshal(request, m) != nil {
		return ""
	}
	switch m := m.(type) {
	case *abi.InstanceRequest:
		return m.GetNode().GetName()
	case *abi.LoadBalancerRequest:
		if m.GetService() != nil {
			return m.GetService().GetNamespace() + "/" + m.GetService().GetName()
		}
	case *abi.VolumeLabelsRequest:
		return m.GetVolume().GetName()
	}
	return ""
}

func (s *Sample) outcome() outcome { return outcome{code: s.code, response: []byte(s.response)} }

// outcome is how an op ended.
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

// proper reports whether the outcome says something of the cloud. The other
// codes say that it could not be asked, or not now.
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
