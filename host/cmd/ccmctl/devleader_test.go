package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// dev follows the leading manager: it leaves one that no longer leads.
func TestDevFollowsTheLeader(t *testing.T) {
	asked := 0
	connect := func() (*managerClient, error) {
		leads := asked > 0
		asked++
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, fmt.Sprintf(`{"manager": {"leads": %t}, "providers": [{"name": "p", "generation": 3}]}`, leads))
		}))
		t.Cleanup(server.Close)
		return newManagerClient(server.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {}), nil
	}
	d := &dev{devFlags: &devFlags{}, provider: "p", manager: &connection{connect: connect}}
	t.Cleanup(d.manager.drop)
	if p, err := d.status(t.Context()); err == nil {
		t.Errorf("a standby is asked: %+v", p)
	}
	if p, err := d.status(t.Context()); err != nil || p.Generation != 3 {
		t.Errorf("the leader: %+v, %v", p, err)
	}
}
