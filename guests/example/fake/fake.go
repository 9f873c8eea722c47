// Package fake is the example's cloud in memory: two servers, and load
// balancers that take a moment to be made. Tests call it, and command cloud
// serves it.
package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

type server struct{ Name, Type, Zone, IP, Status string }

type balancer struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Status  string   `json:"status"`
	IP      string   `json:"ip"`
	Ports   []port   `json:"ports"`
	Servers []string `json:"servers"`
}

type port struct {
	Port     int32 `json:"port"`
	NodePort int32 `json:"node_port"`
}

// Cloud is an http.Handler, safe for concurrent use.
type Cloud struct {
	http.Handler

	mu        sync.Mutex
	made      int
	balancers []*balancer
}

// New returns a cloud that requires the token.
func New(token string) *Cloud {
	c, mux := &Cloud{}, http.NewServeMux()
	mux.HandleFunc("GET /v1/servers", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, servers()) })
	mux.HandleFunc("GET /v1/servers/{name}", oneServer)
	mux.HandleFunc("GET /v1/load-balancers", c.list)
	mux.HandleFunc("POST /v1/load-balancers", c.create)
	mux.HandleFunc("PUT /v1/load-balancers/{id}", c.change)
	mux.HandleFunc("DELETE /v1/load-balancers/{id}", c.remove)
	c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			refuse(w, http.StatusUnauthorized, "who are you?")
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
	return c
}

func servers() []server {
	return []server{{"worker-1", "small", "a", "192.0.2.11", "on"}, {"worker-2", "large", "b", "192.0.2.12", "on"}}
}

func oneServer(w http.ResponseWriter, r *http.Request) {
	for _, one := range servers() {
		if one.Name == r.PathValue("name") {
			answer(w, http.StatusOK, one)
			return
		}
	}
	refuse(w, http.StatusNotFound, "there is no such server")
}

// list has one load balancer per page, so that clients meet a second page. A
// new one is ready when it is seen again.
func (c *Cloud) list(w http.ResponseWriter, r *http.Request) {
	page := struct {
		Items []balancer `json:"load_balancers"`
		Next  string     `json:"next"`
	}{Items: []balancer{}}
	for _, b := range c.balancers {
		wanted := r.FormValue("name") == "" || b.Name == r.FormValue("name")
		switch {
		case !wanted || b.ID <= r.FormValue("page_token"):
		case len(page.Items) == 1:
			page.Next = page.Items[0].ID
		default:
			page.Items = append(page.Items, *b)
			b.Status = "active"
		}
	}
	answer(w, http.StatusOK, page)
}

func (c *Cloud) create(w http.ResponseWriter, r *http.Request) {
	b := &balancer{}
	if err := json.NewDecoder(r.Body).Decode(b); err != nil || b.Name == "" {
		refuse(w, http.StatusBadRequest, "no load balancer with a name")
		return
	}
	for _, other := range c.balancers {
		if other.Name == b.Name {
			refuse(w, http.StatusConflict, "there is a load balancer of this name")
			return
		}
	}
	c.made++
	b.ID, b.IP, b.Status = fmt.Sprintf("lb-%06d", c.made), fmt.Sprintf("198.51.100.%d", c.made%250+1), "building"
	c.balancers = append(c.balancers, b)
	answer(w, http.StatusCreated, b)
}

func (c *Cloud) change(w http.ResponseWriter, r *http.Request) {
	for _, b := range c.balancers {
		if b.ID != r.PathValue("id") {
			continue
		}
		next := *b
		if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		b.Ports, b.Servers = next.Ports, next.Servers
		answer(w, http.StatusOK, b)
		return
	}
	refuse(w, http.StatusNotFound, "there is no such load balancer")
}

func (c *Cloud) remove(w http.ResponseWriter, r *http.Request) {
	for i, b := range c.balancers {
		if b.ID == r.PathValue("id") {
			c.balancers = append(c.balancers[:i], c.balancers[i+1:]...)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	refuse(w, http.StatusNotFound, "there is no such load balancer")
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]string{"message": message})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
