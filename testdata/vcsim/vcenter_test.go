package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

const (
	user        = "administrator@vsphere.local"
	password    = `p4ss & <w0rd>"`
	placeholder = "the-host-has-it"
)

// configuration is what an administrator writes, as guests/upstream/vsphere/host.yaml has it.
const configuration = `
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: vsphere
  source: {configMap: {namespace: kube-system, name: cloud-provider-vsphere}}
  grants:
  - {host: 127.0.0.1, port: %[1]s, pathPrefix: /sdk, methods: [POST], credentials: [vcenter], caBundle: %[2]q}
  - {host: 127.0.0.1, port: %[1]s, pathPrefix: /rest/, credentials: [vcenter-tags], caBundle: %[2]q}
  credentials:
  - name: vcenter
    secret: {namespace: kube-system, name: vcenter}
    publicKeys: [username]
    bodyTemplate:
      placeholder: the-host-has-it
      path: /sdk
      contentType: text/xml; charset=utf-8
      body: |
        <Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Login xmlns="urn:vim25">
        <_this type="SessionManager">SessionManager</_this>
        <userName>$(username)</userName><password>$(password)</password></Login></Body></Envelope>
    session: {cookie: vmware_soap_session}
  - name: vcenter-tags
    secret: {namespace: kube-system, name: vcenter}
    basic: {}
    session: {header: vmware-api-session-id, field: value}
`

type secrets map[string][]byte

func (s secrets) Get(context.Context, string, string) (map[string][]byte, string, error) {
	return s, string(s["password"]), nil
}

// host sends what a guest's client sends, as the manager does, and writes down
// all that the guest has in hand.
type host struct {
	network *grant.Network
	mu      sync.Mutex
	seen    bytes.Buffer
}

func newHost(t *testing.T, v *observed, secret string) *host {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw})
	c, err := validation.Decode(fmt.Appendf(nil, configuration, v.URL.Port(), ca))
	if err != nil {
		t.Fatal(err)
	}
	network, err := grant.NewNetwork(&c.Providers[0], grant.NetworkOptions{Secrets: secrets{"username": []byte(user), "password": []byte(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	return &host{network: network}
}

func (h *host) RoundTrip(req *http.Request) (*http.Response, error) {
	request := &abi.HttpRequest{Method: req.Method, Url: req.URL.String(), Credential: "vcenter"}
	if strings.HasPrefix(req.URL.Path, "/rest/") {
		request.Credential = "vcenter-tags"
	}
	for name, values := range req.Header {
		for _, value := range values {
			request.Headers = append(request.Headers, &abi.HttpHeader{Name: name, Value: value})
		}
	}
	if req.Body != nil {
		var err error
		if request.Body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	results, err := h.network.Client.Send(req.Context(), []*abi.HttpRequest{request})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(&h.seen, "%s %s %q\n%s\n%v\n\n", req.Method, req.URL, req.Header, request.Body, results[0])
	if e := results[0].Error; e != nil {
		return nil, errors.New(e.Message)
	}
	answer := results[0].Response
	fmt.Fprintf(&h.seen, "%s\n", answer.Body)
	header := http.Header{}
	for _, line := range answer.Headers {
		header.Add(line.Name, line.Value)
	}
	return &http.Response{StatusCode: int(answer.Status), Status: http.StatusText(int(answer.Status)), Header: header,
		Body: io.NopCloser(bytes.NewReader(answer.Body)), Request: req}, nil
}

// client is govmomi's, with a user whose password is the placeholder.
func (h *host) client(t *testing.T, v *observed) (*vim25.Client, error) {
	t.Helper()
	u, err := soap.ParseURL(v.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	sc := soap.NewClient(u, false)
	sc.Transport = h
	client, err := vim25.NewClient(t.Context(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return client, session.NewManager(client).Login(t.Context(), url.UserPassword("the-guests-name", placeholder))
}

// observed is a vCenter of which the sessions are known that it gives.
type observed struct {
	*vCenter
	mu       sync.Mutex
	sessions []string
}

func start(t *testing.T) *observed {
	t.Helper()
	v, err := newVCenter(t.Context(), url.UserPassword(user, password), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.close)
	o := &observed{vCenter: v}
	next := v.Config.Handler
	v.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		copied := &copied{ResponseWriter: w}
		next.ServeHTTP(copied, r)
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, cookie := range (&http.Response{Header: w.Header()}).Cookies() {
			o.sessions = append(o.sessions, cookie.Value)
		}
		var login struct{ Value string }
		if r.URL.Path == "/rest/com/vmware/cis/session" && json.Unmarshal(copied.body.Bytes(), &login) == nil && login.Value != "" {
			o.sessions = append(o.sessions, login.Value)
		}
	})
	return o
}

func (o *observed) given() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sessions)
}

// copied keeps the body of an answer.
type copied struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (c *copied) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

// TestGovmomiLogsInWithoutAPassword: the client library of every vSphere provider
// logs in at both APIs, finds machines and tags, and has neither the password nor
// a session in hand.
func TestGovmomiLogsInWithoutAPassword(t *testing.T) {
	ctx, v := t.Context(), start(t)
	h := newHost(t, v, password)
	client, err := h.client(t, v)
	if err != nil {
		t.Fatal(err)
	}
	vms, err := find.NewFinder(client).VirtualMachineList(ctx, "/DC0/vm/*")
	if err != nil || len(vms) != 2 {
		t.Fatalf("machines: %v %v", vms, err)
	}
	active, err := session.NewManager(client).UserSession(ctx)
	if err != nil || active == nil || active.UserName != user {
		t.Errorf("the session: %+v %v", active, err)
	}
	api := rest.NewClient(client)
	api.Transport = h
	if err := api.Login(ctx, url.UserPassword("the-guests-name", placeholder)); err != nil {
		t.Fatal(err)
	}
	all, err := tags.NewManager(api).ListTags(ctx)
	if err != nil || len(all) != 2 {
		t.Errorf("tags: %q %v", all, err)
	}
	if n := len(v.given()); n != 2 {
		t.Errorf("vCenter gave %d sessions, want one of each API", n)
	}
	h.mustNotHoldSecrets(t, v)
	if err := errors.Join(api.Logout(ctx), session.NewManager(client).Logout(ctx)); err != nil {
		t.Error(err)
	}
	if _, err := find.NewFinder(client).VirtualMachineList(ctx, "/DC0/vm/*"); err == nil {
		t.Error("it finds machines after it has logged out")
	}
}

// mustNotHoldSecrets looks for what the guest must not have.
func (h *host) mustNotHoldSecrets(t *testing.T, v *observed) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen.String()
	if len(seen) < 1000 || !strings.Contains(seen, placeholder) || !strings.Contains(seen, "session-") {
		t.Fatalf("nothing was written down: %s", seen)
	}
	if len(v.given()) == 0 {
		t.Fatal("vCenter gave no session")
	}
	for _, secret := range append(v.given(), password, "p4ss", "p4ss &amp; &lt;w0rd&gt;") {
		if strings.Contains(seen, secret) {
			i := strings.Index(seen, secret)
			t.Errorf("the guest has %q: ...%s...", secret, seen[max(0, i-200):i+len(secret)])
		}
	}
}

// TestAWrongSecretIsToldAndTriedSeldom: the account is not locked.
func TestAWrongSecretIsToldAndTriedSeldom(t *testing.T) {
	v := start(t)
	h := newHost(t, v, "another password")
	if _, err := h.client(t, v); err == nil || !strings.Contains(err.Error(), "Login failure") {
		t.Errorf("%v, want vCenter's own words", err)
	}
	if _, err := h.client(t, v); err == nil || !strings.Contains(err.Error(), "the next try with this Secret is in 5s") {
		t.Errorf("%v, want no second try", err)
	}
}

// TestTheProviderCannotPlaceThePassword: a name with the placeholder becomes a
// login, and vCenter has no object with the password.
func TestTheProviderCannotPlaceThePassword(t *testing.T) {
	ctx, v := t.Context(), start(t)
	h := newHost(t, v, password)
	client, err := h.client(t, v)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := find.NewFinder(client).Folder(ctx, "/DC0/vm")
	if err != nil {
		t.Fatal(err)
	}
	body := `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><CreateFolder xmlns="urn:vim25"><_this type="Folder">` + folder.Reference().Value + `</_this>` +
		`<name>` + placeholder + `</name></CreateFolder></Body></Envelope>`
	if answer := h.post(t, v, body, client.Jar.Cookies(client.URL())); !strings.Contains(answer, "LoginResponse") {
		t.Errorf("it is answered as no login: %s", answer)
	}
	if answer := h.post(t, v, strings.Replace(body, placeholder, "name", 1), client.Jar.Cookies(client.URL())); !strings.Contains(answer, "CreateFolderResponse") {
		t.Errorf("without the placeholder it creates nothing: %s", answer)
	}
	folders, err := find.NewFinder(client).FolderList(ctx, "/DC0/vm/*")
	if err != nil || len(folders) != 1 || folders[0].Name() != "name" {
		t.Errorf("folders: %v %v", folders, err)
	}
	h.mustNotHoldSecrets(t, v)
}

// TestDestroy is what the end-to-end tests use.
func TestDestroy(t *testing.T) {
	v := start(t)
	if err := errors.Join(v.destroy(t.Context(), "node-1"), v.destroy(t.Context(), "node-0")); err != nil {
		t.Fatal(err)
	}
	if err := v.destroy(t.Context(), "node-0"); err == nil {
		t.Error("a machine was destroyed twice")
	}
}

// post sends a body to the SOAP API, as a guest that needs no client library.
func (h *host) post(t *testing.T, v *observed, body string, cookies []*http.Cookie) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+v.URL.Host+"/sdk", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	for _, cookie := range cookies {
		req.AddCookie(cookie)
	}
	resp, err := h.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
