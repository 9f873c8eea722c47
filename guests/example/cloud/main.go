// Command cloud is the cloud of the example, for trying a provider: two
// servers and their load balancers in memory, on loopback, behind a token.
//
//	go run ./cloud [-listen 127.0.0.1:18080] [-token open-sesame]
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/example/fake"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:18080", "host and port")
	token := flag.String("token", "open-sesame", "what requests have to bear")
	flag.Parse()
	s := &http.Server{Addr: *listen, Handler: fake.New(*token), ReadHeaderTimeout: 10 * time.Second}
	if err := s.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "cloud:", err)
		os.Exit(1)
	}
}
