package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// HTTP sends requests to the cloud through the host, which checks each request
// against the administrator's grant and adds the credential that the request names.
type HTTP struct{ op *Op }

// HTTP needs the capability http_send.
func (op *Op) HTTP() HTTP { return HTTP{op} }

// HTTPResult is a response, or the error of a request without one.
type HTTPResult struct {
	Response *abi.HttpResponse
	Err      error
}

// Do sends one request. A response with a status of 400 or more is a response;
// the errors are CodeDenied, CodeUnavailable, CodeDeadline, CodeTooLarge and
// CodeThrottled.
func (h HTTP) Do(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	results, err := h.DoAll(req)
	if err != nil {
		return nil, err
	}
	return results[0].Response, results[0].Err
}

// DoAll sends requests in parallel, abi.MaxHTTPBatch at a time, and returns one
// result for each, in their order. An error means that the host refused a whole
// batch.
func (h HTTP) DoAll(reqs ...*abi.HttpRequest) ([]HTTPResult, error) {
	results := make([]HTTPResult, 0, len(reqs))
	for len(reqs) > 0 {
		batch := reqs[:min(len(reqs), abi.MaxHTTPBatch)]
		reqs = reqs[len(batch):]
		var resp abi.HttpSendResponse
		if err := h.op.call(abi.CapabilityHTTP, importHTTPSend, &abi.HttpSendRequest{Requests: batch}, &resp); err != nil {
			return nil, err
		}
		if len(resp.Results) != len(batch) {
			return nil, Error(abi.CodeInternal, "http_send: the host did not answer each request")
		}
		for _, result := range resp.Results {
			results = append(results, httpResult(result))
		}
	}
	return results, nil
}

func httpResult(r *abi.HttpResult) HTTPResult {
	if r.Code == 0 && r.Response != nil {
		return HTTPResult{Response: r.Response}
	}
	detail := r.Error
	if detail == nil {
		detail = &abi.ErrorDetail{}
	}
	code := abi.Code(r.Code)
	if code == abi.CodeOK {
		code, detail.Message = abi.CodeInternal, "neither a response nor an error"
	}
	encoded, err := encode(nil, detail)
	if err != nil {
		return HTTPResult{Err: Error(code, err.Error())}
	}
	return HTTPResult{Err: hostError(abi.CapabilityHTTP, code, encoded)}
}
