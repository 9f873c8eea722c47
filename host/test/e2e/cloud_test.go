package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cloud is an HTTP server that the provider may reach: /echo reflects what
// authenticates a request, in several encodings, as a careless API might;
// /hang never answers; standins_test.go has clouds that check what they are
// sent, and reflect it likewise. It keeps what it was sent. /standin/ACCOUNT/
// is a cloud with objects (account_test.go).
type cloud struct {
	server     *http.Server
	port       string
	keystone   keystone
	cloudstack cloudstack

	mu   sync.Mutex
	seen []string // what authenticated each request
	// accounts are those of /standin/.
	accounts map[string]*account
}

// cloud starts one and sets CLOUD_PORT:
//
//	cloud start
//	cloud saw REGEXP           waits until a request had such an Authorization
//	cloud keystone PASSWORD    Keystone gives tokens for this password from now on
//	cloud tokens COUNT         checks how many tokens it gave
//	cloud revoke               the tokens that it gave are no good any more
//	cloud cloudstack SECRETKEY is the key that signatures must be made with
func (h *harness) cloudCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "cloud start|revoke | cloud saw|keystone|tokens|cloudstack ARG")
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
	case args[0] == "keystone" && len(args) == 2:
		h.cloud.keystone.takePassword(args[1])
	case args[0] == "tokens" && len(args) == 2:
		if got := h.cloud.keystone.tokens(); strconv.Itoa(got) != args[1] {
			ts.Fatalf("%d tokens were given, want %s", got, args[1])
		}
	case args[0] == "revoke":
		h.cloud.keystone.revoke()
	case args[0] == "cloudstack" && len(args) == 2:
		h.cloud.cloudstack.takeKey(args[1])
	default:
		ts.Fatalf("cloud %s: unknown", args[0])
	}
}

func startCloud(ts *testscript.TestScript) *cloud {
	c, listener, err := newCloud()
	ts.Check(err)
	go func() { _ = c.server.Serve(listener) }() // ends with Close
	return c
}

func newCloud() (*cloud, net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	c := &cloud{}
	if _, c.port, err = net.SplitHostPort(l.Addr().String()); err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", c.echo)
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("POST /v3/auth/tokens", c.keystone.login)
	mux.HandleFunc("/openstack", c.openStack)
	mux.HandleFunc("/cloudstack", c.cloudStack)
	mux.HandleFunc("/standin/{account}/{path...}", c.standIn)
	c.server = &http.Server{Handler: mux}
	return c, l, nil
}

func (c *cloud) echo(w http.ResponseWriter, r *http.Request) {
	secret := r.Header.Get("Authorization")
	c.saw(secret)
	_, token, _ := strings.Cut(secret, " ")
	reflect(w, http.StatusOK, secret, token)
}

// reflect repeats what authenticated a request, and the secret of it.
func reflect(w http.ResponseWriter, status int, all, secret string) {
	w.Header().Set("X-You-Sent", all)
	w.WriteHeader(status)
	fmt.Fprintf(w, "plain %s\nbase64 %s\nurl %s\nhex %x\n", secret,
		base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret), secret)
}

func (c *cloud) saw(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, what)
}

func (c *cloud) requests() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.seen, "\n")
}

// secret makes a Secret or replaces its values:
//
//	secret NAME [KEY VALUE]...
func (h *harness) secret(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args)%2 == 1, "secret NAME [KEY VALUE]...")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: args[0]}, Data: map[string][]byte{}}
	for pair := range slices.Chunk(args[1:], 2) {
		s.Data[pair[0]] = []byte(pair[1])
	}
	s.Type = secretType(s.Data)
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
