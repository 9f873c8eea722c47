package manager

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// cloud is the providers' cloud. Each provider has a path and tokens.
type cloud struct {
	port string

	mu     sync.Mutex
	tokens map[string]string // provider by token
	wrong  []string          // requests with another provider's token
}

// newCloud serves outside of any bubble; each connection ends with its
// response, since an idle one in a bubble would stop its clock.
func newCloud(t *testing.T) *cloud {
	c := &cloud{tokens: map[string]string{}}
	server := httptest.NewUnstartedServer(c)
	server.Config.SetKeepAlivesEnabled(false)
	server.Config.ReadHeaderTimeout = time.Second // for a connection whose request was cancelled
	server.Start()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.port = port
	return c
}

// accept makes a token valid for a provider.
func (c *cloud) accept(provider, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[token] = provider
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := r.Header.Get("X-Token")
	switch owner := c.tokens[token]; {
	case owner == "":
		http.Error(w, "unknown token", http.StatusUnauthorized)
	case r.URL.Path != "/"+owner+"/":
		c.wrong = append(c.wrong, token+" at "+r.URL.Path)
		http.Error(w, "another one's token", http.StatusForbidden)
	}
}
