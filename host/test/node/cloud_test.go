//go:build node

package node_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cloud is a stand-in on the bridge that keeps what it is sent, for provider faulty.
type cloud struct {
	address string
	// answers is a status of HTTP for every request; 0 is that of a cloud that works.
	answers atomic.Int32
	kept    sync.Map
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", bridgeAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{address: listener.Addr().String()}
	server := &httptest.Server{Listener: listener, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: c}}
	server.Start()
	t.Cleanup(server.Close)
	return c
}

func (c *cloud) port() string {
	_, port, _ := net.SplitHostPort(c.address)
	return port
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := c.answers.Load(); status != 0 {
		w.WriteHeader(int(status))
		return
	}
	switch r.Method {
	case http.MethodPut:
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // who is cut off asks again
		c.kept.Store(r.URL.Path, body)
	case http.MethodDelete:
		c.kept.Delete(r.URL.Path)
	default:
		if body, there := c.kept.Load(r.URL.Path); there {
			_, _ = w.Write(body.([]byte))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}
}
