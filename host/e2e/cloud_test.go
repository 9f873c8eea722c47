package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cloud is an HTTP server that the provider may reach: /echo reflects what
// authenticates a request, in several encodings, as a careless API might;
// /hang never answers. It keeps what it was sent.
type cloud struct {
	server *http.Server
	port   string

	mu   sync.Mutex
	seen []string // the header Authorization of each request
}

// cloud starts one and sets CLOUD_PORT:
//
//	cloud start
//	cloud saw REGEXP   waits until a request had such an Authorization
func (h *harness) cloudCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "cloud start | cloud saw REGEXP")
	switch {
	case args[0] == "start":
		h.cloud = startCloud(ts)
		ts.Defer(func() { _ = h.cloud.server.Close() })
		ts.Setenv("CLOUD_PORT", h.cloud.port)
	case args[0] == "saw" && len(args) == 2:
		re := compile(ts, args[1])
		await(ts, patience, "a request with "+args[1], func() (bool, string) {
			seen := h.cloud.requests()
			return re.MatchString(seen), seen
		})
	default:
		ts.Fatalf("cloud %s: unknown", args[0])
	}
}

func startCloud(ts *testscript.TestScript) *cloud {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	c := &cloud{}
	_, c.port, err = net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", c.echo)
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c.server = &http.Server{Handler: mux}
	go func() { _ = c.server.Serve(l) }() // ends with Close
	return c
}

func (c *cloud) echo(w http.ResponseWriter, r *http.Request) {
	secret := r.Header.Get("Authorization")
	c.mu.Lock()
	c.seen = append(c.seen, secret)
	c.mu.Unlock()
	w.Header().Set("X-You-Sent", secret)
	_, token, _ := strings.Cut(secret, " ")
	fmt.Fprintf(w, "plain %s\nbase64 %s\nurl %s\nhex %x\n", token,
		base64.StdEncoding.EncodeToString([]byte(token)), url.QueryEscape(token), token)
}

func (c *cloud) requests() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.seen, "\n")
}

// secret makes or changes a Secret with one value:
//
//	secret NAME KEY VALUE
func (h *harness) secret(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "secret NAME KEY VALUE")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: args[0]}, Data: map[string][]byte{args[1]: []byte(args[2])}}
	secrets := h.client.CoreV1().Secrets(h.namespace)
	_, err := secrets.Update(context.Background(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(context.Background(), s, metav1.CreateOptions{})
	}
	ts.Check(err)
}

// expand replaces $NAME in a file by the script's environment:
//
//	expand FILE
func (h *harness) expand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "expand FILE")
	path := ts.MkAbs(args[0])
	text := os.Expand(string(read(ts, args[0])), ts.Getenv)
	// As a mounted ConfigMap: there is never half a file.
	ts.Check(os.WriteFile(path+".next", []byte(text), 0o600))
	ts.Check(os.Rename(path+".next", path))
}
