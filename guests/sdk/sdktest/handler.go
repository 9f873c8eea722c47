package sdktest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Handler turns an http.Handler into a fake cloud, for Host.HTTP:
//
//	h.HTTP = sdktest.Handler(mux, map[string]string{"api-token": "Bearer open-sesame"})
//
// Credentials are the administrator's grants: each name with the header
// Authorization that it adds to a request. A request with another name is
// denied, as by the manager. There is no listener: the handler is called. A
// panic of the handler acts as a broken connection.
func Handler(cloud http.Handler, credentials map[string]string) func(*abi.HttpRequest) (*abi.HttpResponse, error) {
	return func(req *abi.HttpRequest) (resp *abi.HttpResponse, err error) {
		sent, err := http.NewRequestWithContext(context.Background(), req.Method, req.Url, bytes.NewReader(req.Body))
		if err != nil {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: err.Error()}
		}
		sent.RequestURI, sent.RemoteAddr = sent.URL.RequestURI(), "192.0.2.1:1234" // as a server sees it
		for _, h := range req.Headers {
			sent.Header.Add(h.Name, h.Value)
		}
		if req.Credential != "" {
			value, granted := credentials[req.Credential]
			if !granted {
				return nil, &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("the credential %q is not granted", req.Credential)}
			}
			sent.Header.Set("Authorization", value)
		}
		defer func() {
			if reason := recover(); reason != nil {
				resp, err = nil, &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprint("the cloud panics: ", reason)}
			}
		}()
		recorder := httptest.NewRecorder()
		cloud.ServeHTTP(recorder, sent)
		return answerOf(recorder), nil
	}
}

func answerOf(recorder *httptest.ResponseRecorder) *abi.HttpResponse {
	result := recorder.Result()
	defer result.Body.Close()
	answer := &abi.HttpResponse{Status: int32(result.StatusCode), Body: recorder.Body.Bytes()}
	for name, values := range result.Header {
		for _, value := range values {
			answer.Headers = append(answer.Headers, &abi.HttpHeader{Name: name, Value: value})
		}
	}
	slices.SortFunc(answer.Headers, func(a, b *abi.HttpHeader) int { return strings.Compare(a.Name, b.Name) })
	return answer
}
