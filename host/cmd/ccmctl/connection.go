package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// connectionAge is how long a connection is asked before the manager that leads is
// looked for again. Its token lives longer (viewerSeconds). On a node's own network a
// connection to a Pod that is gone reaches the one after it, which may stand by.
const connectionAge = 10 * time.Second

// connection leads to the manager for as long as a command runs: it is made again
// when the manager has been replaced, or no longer leads. It is safe for concurrent
// use.
type connection struct {
	// connect makes one that outlives the request which needs it.
	connect func() (*managerClient, error)

	mu    sync.Mutex
	asked *managerClient
	since time.Time
}

// fetch asks the manager, and once more over a new connection: the manager may have
// been replaced, or no longer lead.
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

// get asks the manager for an answer of its API.
func (c *connection) get(ctx context.Context, path string, into any) error {
	got, err := c.fetch(ctx, path, "")
	if err != nil {
		return err
	}
	return got.read(into)
}

// manager returns the connection, or makes one.
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

// drop ends the connection.
func (c *connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.asked.close()
		c.asked = nil
	}
}
