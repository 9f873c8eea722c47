package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// Debug writes a line to the host's log, which adds the op and its object.
// keysAndValues are pairs. Lines above the host's rate are dropped.
func (op *Op) Debug(message string, keysAndValues ...string) {
	op.log(abi.LogRequest_SEVERITY_DEBUG, message, keysAndValues)
}

// Info is as Debug.
func (op *Op) Info(message string, keysAndValues ...string) {
	op.log(abi.LogRequest_SEVERITY_INFO, message, keysAndValues)
}

// Warn is as Debug.
func (op *Op) Warn(message string, keysAndValues ...string) {
	op.log(abi.LogRequest_SEVERITY_WARNING, message, keysAndValues)
}

// Error is as Debug. It does not fail the op: return an error for that.
func (op *Op) Error(message string, keysAndValues ...string) {
	op.log(abi.LogRequest_SEVERITY_ERROR, message, keysAndValues)
}

func (op *Op) log(severity abi.LogRequest_Severity, message string, keysAndValues []string) {
	req := abi.LogRequest{Severity: severity, Message: message}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		req.Values = append(req.Values, &abi.KeyValue{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	if len(keysAndValues)%2 == 1 {
		req.Values = append(req.Values, &abi.KeyValue{Key: keysAndValues[len(keysAndValues)-1]})
	}
	// A dropped line is no reason to fail the op.
	_ = op.call(abi.ImportLog, importLog, &req, nil)
}
