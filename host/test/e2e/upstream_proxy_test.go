//go:build upstream

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// motoProxy stands between a manager and moto, as two hosts: EC2, and both
// kinds of load balancers. It counts each request by its action, and looks who
// signed it.
type motoProxy struct {
	ec2, elb string // host:port

	mu     sync.Mutex
	delay  time.Duration // of each answer
	counts map[string]int
	signer map[string]int // "key/service" of the signatures
	log    []string
}

// hosts are loopback addresses of their own, so that rules by host tell them
// apart from each other and from the API server.
func startMotoProxy(t *testing.T, moto string) *motoProxy {
	t.Helper()
	target, err := url.Parse(moto)
	if err != nil {
		t.Fatal(err)
	}
	p := &motoProxy{counts: map[string]int{}, signer: map[string]int{}}
	p.ec2, p.elb = p.serve(t, "127.0.0.2:0", target), p.serve(t, "127.0.0.3:0", target)
	return p
}

func (p *motoProxy) serve(t *testing.T, address string, target *url.URL) string {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ModifyResponse = asAWS
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, signer := p.count(t, r)
		switch {
		case signer == awsWrongID:
			refuse(w, form.Get("Version"))
		case form.Get("Action") == "DescribeInstanceTopology":
			_, _ = io.WriteString(w, noTopology) // the client sees a broken answer
		case form.Get("Action") == "DeleteLoadBalancerListeners":
			oneByOne(w, r, form, forward)
		default:
			forward.ServeHTTP(w, r)
		}
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

var signature = regexp.MustCompile(`Credential=([^/]+)/\d+/[^/]+/([^/]+)/aws4_request`)

func (p *motoProxy) count(t *testing.T, r *http.Request) (form url.Values, signer string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Logf("a request without its body: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err = url.ParseQuery(string(body))
	if err != nil {
		t.Errorf("a body that is no form: %.200s", body)
	}
	action, values := form.Get("Action"), maps.Clone(form)
	if form.Get("Version") == awsVersions["elasticloadbalancingv2"] {
		action += " (v2)"
	}
	signed := signature.FindStringSubmatch(r.Header.Get("Authorization"))
	if signed == nil {
		signed = []string{"", "nobody", "nothing"}
	}
	signer = signed[1]
	if r.Header.Get("X-Amz-Security-Token") != "" {
		signed[1] += " with a session"
	}
	p.mu.Lock()
	p.counts[action]++
	p.signer[signed[1]+"/"+signed[2]]++
	values.Del("Action")
	values.Del("Version")
	p.log = append(p.log, time.Now().Format("15:04:05.000 ")+action+" "+values.Encode())
	delay := p.delay
	p.mu.Unlock()
	time.Sleep(delay) // it is a slow cloud
	return form, signer
}

// reset forgets what was counted.
func (p *motoProxy) reset(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
	clear(p.signer)
	p.log, p.delay = nil, delay
}

func (p *motoProxy) seen() (counts, signers map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts), maps.Clone(p.signer)
}

func (p *motoProxy) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(strings.Join(p.log[max(0, len(p.log)-40):], "\n"))
}
