package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// connectionAge is the time after which the leading manager is looked for
// again. The token lives longer (viewerSeconds). On the host network a
// connection to a former Pod reaches its successor, which may stand by.
const connectionAge = 10 * time.Second

// connection is a connection to the manager for the duration of a command: it
// is renewed when the manager was replaced, or no longer leads. It is safe for
// concurrent use.
type connection struct {
	// connect opens a client that outlives the current request.
	connect func() (*managerClient, error)

	mu    sync.Mutex
	asked *managerClient
	since time.Time
}

// fetch sends a request, and repeats it over a new connection: the manager may
// have been replaced, or no longer lead.
func (c *connection) fetch(ctx context.Context, path, query string) (got *fetched, err error) {
	for range 2 {
		var client *managerClient
		if client, err = c.manager(); err != nil {
			return nil, err
		}
		got, err = client.fetch(ctx, path, query, v1alpha1.MaxAnswer)
		if err == nil && got.code != http.StatusUnauthorized {
			return got, nil
		}
		c.drop()
	}
	return got, err
}

// get requests an answer of the manager's API.
func (c *connection) get(ctx context.Context, path string, into any) error {
	got, err := c.fetch(ctx, path, "")
	if err != nil {
		return err
	}
	return got.read(into)
}

// manager returns the connection, or opens one.
func (c *connection) manager() (*managerClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil && time.Since(c.since) < connectionAge {
		return c.asked, nil
	}
	if c.asked != nil {
		c.asked.close()
		c.asked = nil
	}
	made, err := c.connect()
	if err != nil {
		return nil, err
	}
	c.asked, c.since = made, time.Now()
	return made, nil
}

// drop closes the connection.
func (c *connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.asked.close()
		c.asked = nil
	}
}
