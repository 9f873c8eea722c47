package hostile_test

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// nothingHappens is behind the host calls where only their cost is of
// interest: it keeps nothing.
type nothingHappens struct{}

// Event implements hostfunc.EventRecorder.
func (nothingHappens) Event(runtime.Object, string, string, string) {}

// Read implements hostfunc.Store.
func (nothingHappens) Read(context.Context, string) (*abi.StoreResponse, error) {
	return &abi.StoreResponse{Version: "1", Entries: []*abi.StoreEntry{{Key: "k", Value: []byte("v")}}}, nil
}

// Write implements hostfunc.Store.
func (nothingHappens) Write(context.Context, *abi.StoreWrite) (*abi.StoreResponse, error) {
	return &abi.StoreResponse{Version: "2"}, nil
}

// Send implements hostfunc.HTTP.
func (nothingHappens) Send(_ context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	results := make([]*abi.HttpResult, len(requests))
	for i := range results {
		results[i] = &abi.HttpResult{Response: &abi.HttpResponse{Status: 200}}
	}
	return results, nil
}
