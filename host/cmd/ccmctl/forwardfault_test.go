package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/runtime"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// client-go's logs about connections do not appear between the lines of a
// command: the node's message about the port becomes the caller's error.
func TestForwardFault(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	fault := &forwardFault{}
	client := newManagerClient(server.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {})
	client.fault = fault.last
	t.Cleanup(client.close)

	written := stderrOf(t, func() {
		runtime.HandleErrorWithLogger(logr.New(fault), io.EOF, "Error copying from local connection to remote stream")
		if _, err := client.status(t.Context()); err == nil || !strings.Contains(err.Error(), v1alpha1.StatusPath) {
			t.Errorf("an end that nobody explains: %v", err)
		}
		runtime.HandleErrorWithLogger(logr.New(fault), errors.New("dial tcp4 127.0.0.1:10258: connect: connection refused"), unforwarded)
		if _, err := client.status(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a port where nothing listens: %v", err)
		}
	})
	if written != "" {
		t.Errorf("written: %s", written)
	}
}

// stderrOf returns what f writes to stderr, less than the size of a pipe.
func stderrOf(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = before
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
