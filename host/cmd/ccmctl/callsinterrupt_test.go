package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
)

// Ctrl-C ends calls --watch successfully, as it ends dashboard and dev.
func TestCallsWatchEndsByInterrupt(t *testing.T) {
	asked := make(chan struct{})
	var once sync.Once
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind": "Calls", "manager": {"leads": true}}`)
		once.Do(func() { close(asked) })
	}))
	t.Cleanup(server.Close)
	b := newBench(t)
	token := b.write(t, "token", []byte("t"))
	ca := b.write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	go func() {
		<-asked
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT) // otherwise the test never ends
	}()
	if out, err := ccmctl("calls", "--watch", "--server", server.URL, "--token-file", token, "--ca-file", ca); err != nil {
		t.Errorf("%s %v", out, err)
	}
}
