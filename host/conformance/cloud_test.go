package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const token = "correct-horse-battery"

// widgets is a small cloud: three servers, load balancers with members, routes
// and a volume, as JSON with a bearer token.
type widgets struct {
	server *httptest.Server

	mu     sync.Mutex
	next   int
	lbs    map[string]*widget // by ID
	routes map[string]string  // CIDR by node
}

type widget struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	IP      string `json:"ip"`
	Members string `json:"members"`
	Mark    string `json:"mark"`
}

var serverNames = []string{"worker-1", "worker-2", "worker-3"}

func newWidgets(tb testing.TB) *widgets {
	w := &widgets{lbs: map[string]*widget{}, routes: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/probe", func(rw http.ResponseWriter, _ *http.Request) { reply(rw, 200, map[string]any{"ok": true}) })
	mux.HandleFunc("GET /v1/servers", w.listServers)
	mux.HandleFunc("GET /v1/servers/{name}", func(rw http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("name"); slices.Contains(serverNames, name) {
			reply(rw, 200, serverOf(name))
		} else {
			reply(rw, 404, map[string]any{"error": "no such server"})
		}
	})
	mux.HandleFunc("GET /v1/lbs", w.listLBs)
	mux.HandleFunc("POST /v1/lbs", w.createLB)
	mux.HandleFunc("PUT /v1/lbs/{id}", w.changeLB)
	mux.HandleFunc("DELETE /v1/lbs/{id}", w.deleteLB)
	mux.HandleFunc("GET /v1/routes", w.listRoutes)
	mux.HandleFunc("PUT /v1/routes/{node}", w.changeRoute)
	mux.HandleFunc("DELETE /v1/routes/{node}", w.changeRoute)
	mux.HandleFunc("GET /v1/volumes/{id}", func(rw http.ResponseWriter, _ *http.Request) { reply(rw, 200, map[string]any{"zone": "rack-b"}) })
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			reply(rw, 401, map[string]any{"error": "who are you?"})
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		mux.ServeHTTP(rw, r)
	}))
	tb.Cleanup(w.server.Close)
	return w
}

func reply(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body) // the client may be gone
}

func serverOf(name string) map[string]any {
	return map[string]any{"name": name, "ip": "10.0.0." + name[len(name)-1:]}
}

func (w *widgets) listServers(rw http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := 0
	if after := r.URL.Query().Get("after"); after != "" {
		if from = slices.Index(serverNames, after) + 1; from == 0 {
			reply(rw, 400, map[string]any{"error": "no such marker"})
			return
		}
	}
	page := []any{}
	for _, name := range serverNames[from:min(len(serverNames), from+limit)] {
		page = append(page, serverOf(name))
	}
	reply(rw, 200, map[string]any{"servers": page, "more": from+limit < len(serverNames)})
}

func (w *widgets) listLBs(rw http.ResponseWriter, r *http.Request) {
	found := []*widget{}
	for _, lb := range w.lbs {
		if lb.Name == r.URL.Query().Get("name") {
			found = append(found, lb)
		}
	}
	reply(rw, 200, map[string]any{"lbs": found})
}

func (w *widgets) createLB(rw http.ResponseWriter, r *http.Request) {
	var lb widget
	if json.NewDecoder(r.Body).Decode(&lb) != nil {
		reply(rw, 400, map[string]any{"error": "no JSON"})
		return
	}
	w.next++
	lb.ID, lb.IP = fmt.Sprintf("00000000-0000-4000-8000-%012d", w.next), fmt.Sprintf("198.51.100.%d", w.next%250)
	w.lbs[lb.ID] = &lb
	reply(rw, 201, lb)
}

func (w *widgets) changeLB(rw http.ResponseWriter, r *http.Request) {
	lb := w.lbs[r.PathValue("id")]
	if lb == nil || json.NewDecoder(r.Body).Decode(lb) != nil {
		reply(rw, 404, map[string]any{"error": "no such load balancer"})
		return
	}
	reply(rw, 200, lb)
}

func (w *widgets) deleteLB(rw http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if w.lbs[id] == nil {
		reply(rw, 404, map[string]any{"error": "no such load balancer"})
		return
	}
	delete(w.lbs, id)
	reply(rw, 204, nil)
}

func (w *widgets) listRoutes(rw http.ResponseWriter, _ *http.Request) {
	reply(rw, 200, map[string]any{"routes": w.routes})
}

func (w *widgets) changeRoute(rw http.ResponseWriter, r *http.Request) {
	node := r.PathValue("node")
	if delete(w.routes, node); r.Method == http.MethodPut {
		w.routes[node] = r.URL.Query().Get("cidr")
	}
	reply(rw, 200, map[string]any{})
}

// inspect is the witness, independent of the guest.
func (w *widgets) inspect() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &strings.Builder{}
	for _, lb := range w.lbs {
		fmt.Fprintf(b, "lb %s %s %s %s\n", lb.ID, lb.Name, lb.IP, lb.Members)
	}
	for node, cidr := range w.routes {
		fmt.Fprintf(b, "route %s %s\n", node, cidr)
	}
	return b.String()
}
