package shadow

import (
	"net/http"
	"reflect"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// exchanges are the recorded HTTP requests, by the key under which two versions of a
// provider send the same request. Headers and timeouts are not part of it; nor is the batch.
type exchanges map[exchangeKey][]*exchange

type exchangeKey struct{ method, url, scope, body string }

func keyOf(r *abi.HttpRequest) exchangeKey {
	return exchangeKey{r.Method, r.Url, r.CredentialScope, string(r.Body)}
}

// exchange is one request with its result.
type exchange struct {
	request *abi.HttpRequest
	result  *abi.HttpResult
	// failed is the call if the host rejected the whole batch, or nil.
	failed *call
	used   bool
}

// add splits one recorded call. Requests that do not decode cannot match, and are left out.
func (x exchanges) add(c call) {
	var batch abi.HttpSendRequest
	var response abi.HttpSendResponse
	if wire.Unmarshal([]byte(c.request), &batch) != nil {
		return
	}
	if c.code == abi.CodeOK && (wire.Unmarshal([]byte(c.result), &response) != nil || len(response.Results) != len(batch.Requests)) {
		return
	}
	for i, request := range batch.Requests {
		e := &exchange{request: request}
		if c.code == abi.CodeOK {
			e.result = response.Results[i]
		} else {
			e.failed = &c
		}
		key := keyOf(request)
		x[key] = append(x[key], e)
	}
}

// take returns the best matching recorded exchange, or nil: first by equal headers, then by
// equal credential, then an unused one, in their order. Reads may repeat the last one.
func (x exchanges) take(r *abi.HttpRequest) *exchange {
	repeatable := r.Method == http.MethodGet || r.Method == http.MethodHead
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
	if reflect.DeepEqual(e.request, r) {
		fit += 4
	}
	if e.request.Credential == r.Credential {
		fit += 2
	}
	if !e.used {
		fit++
	}
	return fit
}

// send answers a batch, request by request: unrecorded requests are sent as one batch.
func (p *player) send(ask live, request []byte) (abi.Code, []byte) {
	var batch abi.HttpSendRequest
	if wire.UnmarshalWithin(request, &batch, wire.MaxRequestOverhead) != nil || len(p.exchanges) == 0 || len(batch.Requests) > abi.MaxHTTPBatch {
		p.left = true
		return ask(abi.CapabilityHTTP, request)
	}
	results := make([]*abi.HttpResult, len(batch.Requests))
	rest := &abi.HttpSendRequest{}
	for i, r := range batch.Requests {
		switch e := p.exchanges.take(r); {
		case e == nil:
			rest.Requests = append(rest.Requests, r)
		case e.failed != nil:
			return e.failed.code, []byte(e.failed.result)
		default:
			results[i] = e.result
		}
	}
	if len(rest.Requests) > 0 {
		code, detail := p.sendRest(ask, rest, results)
		if code != abi.CodeOK {
			return code, detail
		}
	}
	return encode(&abi.HttpSendResponse{Results: results})
}

// sendRest fills in the answers of unrecorded requests.
func (p *player) sendRest(ask live, rest *abi.HttpSendRequest, results []*abi.HttpResult) (abi.Code, []byte) {
	p.left = true
	code, data := encode(rest)
	if code != abi.CodeOK {
		return code, nil
	}
	if code, data = ask(abi.CapabilityHTTP, data); code != abi.CodeOK {
		return code, data
	}
	var response abi.HttpSendResponse
	if wire.Unmarshal(data, &response) != nil || len(response.Results) != len(rest.Requests) {
		return abi.CodeInternal, nil
	}
	for i := range results {
		if results[i] == nil {
			results[i], response.Results = response.Results[0], response.Results[1:]
		}
	}
	return abi.CodeOK, nil
}
