// Command cloud is the cloud of the example, for trying a provider: two
// servers in memory, on loopback, behind a token.
//
//	go run ./cloud [-listen 127.0.0.1:18080] [-token open-sesame]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"
)

type server struct{ Name, Type, Zone, IP, Status string }

func main() {
	listen := flag.String("listen", "127.0.0.1:18080", "host and port")
	token := flag.String("token", "open-sesame", "what requests have to bear")
	flag.Parse()
	s := &http.Server{Addr: *listen, Handler: handler(*token), ReadHeaderTimeout: 10 * time.Second}
	if err := s.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "cloud:", err)
		os.Exit(1)
	}
}

func handler(token string) http.Handler {
	servers := []server{
		{"worker-1", "small", "a", "192.0.2.11", "on"},
		{"worker-2", "large", "b", "192.0.2.12", "on"},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/servers", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, servers) })
	mux.HandleFunc("GET /v1/servers/{name}", func(w http.ResponseWriter, r *http.Request) {
		for _, one := range servers {
			if one.Name == r.PathValue("name") {
				answer(w, http.StatusOK, one)
				return
			}
		}
		answer(w, http.StatusNotFound, "there is no such server")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			answer(w, http.StatusUnauthorized, "who are you?")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked may be gone
}
