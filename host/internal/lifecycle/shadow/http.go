package shadow

import (
	"fmt"
	"net/http"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// exchanges are the recorded HTTP requests, by what makes them the same for
// another version of a provider. Headers and timeouts do not; nor does it
// matter which requests were sent in one batch.
type exchanges map[exchangeKey][]*exchange

type exchangeKey struct{ method, url, scope, body string }

func keyOf(r *abi.HttpRequest) exchangeKey {
	return exchangeKey{r.GetMethod(), r.GetUrl(), r.GetCredentialScope(), string(r.GetBody())}
}

// exchange is one request with its result.
type exchange struct {
	request *abi.HttpRequest
	result  *abi.HttpResult
	// failed is the call when the host took nothing of the batch, or nil.
	failed *call
	used   bool
}

// add takes apart one recorded call. What does not decode cannot be asked for
// again and is left out.
func (x exchanges) add(c call) {
	var batch abi.HttpSendRequest
	var response abi.HttpSendResponse
	if wire.Unmarshal([]byte(c.request), &batch) != nil {
		return
	}
	if c.code == abi.CodeOK && (wire.Unmarshal([]byte(c.result), &response) != nil || len(response.GetResults()) != len(batch.GetRequests())) {
		return
	}
	for i, request := range batch.GetRequests() {
		e := &exchange{request: request}
		if c.code == abi.CodeOK {
			e.result = response.GetResults()[i]
		} else {
			e.failed = &c
		}
		key := keyOf(request)
		x[key] = append(x[key], e)
	}
}

// take returns the recorded exchange that fits best, or nil: the same headers
// before the same credential before one that was not used yet, in their order.
// Reads may repeat the last one.
func (x exchanges) take(r *abi.HttpRequest) *exchange {
	repeatable := r.GetMethod() == http.MethodGet || r.GetMethod() == http.MethodHead
	var best *exchange
	most := -1
	for _, e := range x[keyOf(r)] {
		if e.used && !repeatable {
			continue
		}
		if fit := e.fit(r); fit > most || fit == most && e.used {
			best, most = e, fit
		}
	}
	if best != nil {
		best.used = true
	}
	return best
}

func (e *exchange) fit(r *abi.HttpRequest) int {
	fit := 0
	if e.request.EqualVT(r) {
		fit += 4
	}
	if e.request.GetCredential() == r.GetCredential() {
		fit += 2
	}
	if !e.used {
		fit++
	}
	return fit
}

// send answers a batch, request by request.
func (p *player) send(request []byte) (abi.Code, []byte) {
	var batch abi.HttpSendRequest
	if err := wire.UnmarshalWithin(request, &batch, wire.MaxRequestOverhead); err != nil {
		return fail(abi.CodeInvalid, "http_send: the request does not decode")
	}
	if n := len(batch.GetRequests()); n == 0 || n > abi.MaxHTTPBatch {
		return fail(abi.CodeInvalid, fmt.Sprintf("http_send: %d requests in one batch, must be from 1 to %d", n, abi.MaxHTTPBatch))
	}
	response := &abi.HttpSendResponse{}
	for _, r := range batch.GetRequests() {
		e := p.exchanges.take(r)
		switch {
		case e == nil:
			code, _ := p.miss(fmt.Sprintf("%s %s %s", abi.CapabilityHTTP, text.Line(r.GetMethod(), 16), place(r.GetUrl())))
			response.Results = append(response.Results, &abi.HttpResult{Code: uint32(code), Error: &abi.ErrorDetail{Message: missText}})
		case e.failed != nil:
			return e.failed.code, []byte(e.failed.result)
		default:
			response.Results = append(response.Results, e.result)
		}
	}
	return encode(response)
}
