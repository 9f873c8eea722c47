package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// These tests need a real Keystone; testdata/keystone/up.sh starts one. They
// leave projects and users with random names behind.

// real is one credential at the real Keystone.
type real struct {
	t      *testing.T
	url    string
	host   *sdktest.SignerHost
	logins int
}

// newReal returns a credential that logs in with the Secret; nil is the
// administrator's.
func newReal(t *testing.T, secret map[string]string, config string) *real {
	t.Helper()
	url := os.Getenv("KEYSTONE_URL")
	if url == "" {
		t.Skip("KEYSTONE_URL is not set: testdata/keystone/up.sh starts a Keystone and says its URL")
	}
	if secret == nil {
		secret = map[string]string{
			"username": "admin", "user_domain_name": "Default", "password": cmp.Or(os.Getenv("KEYSTONE_PASSWORD"), "admin"),
		}
		config += "\nproject_name: admin\nproject_domain_name: Default"
	}
	r := &real{t: t, url: url, host: sdktest.NewSignerHost(t)}
	r.host.Secret = secret
	r.host.Tokens = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		r.logins++
		return r.send(req)
	}
	r.host.Configure(&signer{}, "auth_url: "+url+"\nallowed_scopes: ['project:*', 'domain:*', system, unscoped]\n"+config)
	return r
}

func (r *real) send(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	out, err := http.NewRequestWithContext(r.t.Context(), req.Method, req.Url, bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range req.Headers {
		out.Header.Set(h.Name, h.Value)
	}
	in, err := http.DefaultClient.Do(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Body.Close() }()
	resp := &abi.HttpResponse{Status: int32(in.StatusCode)}
	for name, values := range in.Header {
		resp.Headers = append(resp.Headers, &abi.HttpHeader{Name: name, Value: values[0]})
	}
	resp.Body, err = io.ReadAll(in.Body)
	return resp, err
}

// do sends a request as the manager does: signed, and once more after a 401.
func (r *real) do(scope, method, path string, body, into any) int32 {
	r.t.Helper()
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			r.t.Fatal(err)
		}
	}
	req := &abi.HttpRequest{
		Method: method, Url: r.url + path, CredentialScope: scope, Body: encoded,
		Headers: []*abi.HttpHeader{{Name: "Content-Type", Value: "application/json"}},
	}
	for try := 0; ; try++ {
		signed, err := r.host.Sign(req)
		if err != nil {
			r.t.Fatalf("%s %s: %v", method, path, err)
		}
		resp, err := r.send(signed)
		if err != nil {
			r.t.Fatal(err)
		}
		if resp.Status == 401 && try == 0 {
			r.host.Rejected(scope)
			continue
		}
		if into != nil {
			if err := json.Unmarshal(resp.Body, into); err != nil {
				r.t.Fatalf("%s %s: %d %s", method, path, resp.Status, resp.Body)
			}
		}
		return resp.Status
	}
}

// must is do for requests that must succeed.
func (r *real) must(method, path string, body, into any) {
	r.t.Helper()
	if status := r.do("", method, path, body, into); status >= 300 {
		r.t.Fatalf("%s %s: %d", method, path, status)
	}
}

type identified struct{ ID, Name, Secret string }

// tokenInfo is Keystone's description of the token of a scope.
type tokenInfo struct {
	Project, Domain, User identified
	System                struct{ All bool }
}

func (r *real) whoAmI(scope string) tokenInfo {
	r.t.Helper()
	token := r.token(scope)
	resp, err := r.send(&abi.HttpRequest{Method: "GET", Url: r.url + "/v3/auth/tokens?nocatalog", Headers: []*abi.HttpHeader{
		{Name: "X-Auth-Token", Value: token}, {Name: "X-Subject-Token", Value: token},
	}})
	if err != nil || resp.Status != 200 {
		r.t.Fatalf("asking about the token: %v %v", resp, err)
	}
	var info struct{ Token tokenInfo }
	if err := json.Unmarshal(resp.Body, &info); err != nil {
		r.t.Fatal(err)
	}
	return info.Token
}

// renewUntilAccepted does as the host does after a 401. Keystone counts
// revocations in whole seconds: a token from the second of the password change
// is revoked, too.
func (r *real) renewUntilAccepted() {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); r.host.Rejected("") {
		token := r.token("")
		resp, err := r.send(&abi.HttpRequest{Method: "HEAD", Url: r.url + "/v3/auth/tokens", Headers: []*abi.HttpHeader{
			{Name: "X-Auth-Token", Value: token}, {Name: "X-Subject-Token", Value: token},
		}})
		if err == nil && resp.Status != 401 {
			return
		}
	}
	r.t.Fatal("no token of the new password is accepted")
}

func (r *real) token(scope string) string {
	r.t.Helper()
	signed, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url, CredentialScope: scope})
	if err != nil {
		r.t.Fatal(err)
	}
	return header(&abi.HttpResponse{Headers: signed.Headers}, "X-Auth-Token")
}

func (r *real) revoke(token string) {
	r.t.Helper()
	resp, err := r.send(&abi.HttpRequest{Method: "DELETE", Url: r.url + "/v3/auth/tokens", Headers: []*abi.HttpHeader{
		{Name: "X-Auth-Token", Value: token}, {Name: "X-Subject-Token", Value: token},
	}})
	if err != nil || resp.Status != 204 {
		r.t.Fatalf("revoking: %v %v", resp, err)
	}
}

// newProject makes a project in which the user has all rights.
func (r *real) newProject(userID string) string {
	r.t.Helper()
	var project struct{ Project identified }
	r.must("POST", "/v3/projects", map[string]any{"project": map[string]any{"name": "p-" + rand.Text(), "domain_id": "default"}}, &project)
	r.must("PUT", "/v3/projects/"+project.Project.ID+"/users/"+userID+"/roles/"+r.adminRole(), nil, nil)
	return project.Project.ID
}

func (r *real) adminRole() string {
	r.t.Helper()
	var roles struct{ Roles []identified }
	r.must("GET", "/v3/roles?name=admin", nil, &roles)
	return roles.Roles[0].ID
}

func TestKeystonePassword(t *testing.T) {
	r := newReal(t, nil, "")
	if me := r.whoAmI(""); me.User.Name != "admin" || me.Project.Name != "admin" {
		t.Errorf("the token is of %+v", me)
	}
	var catalog struct{ Catalog []struct{ Type string } }
	if status := r.do("", "GET", "/v3/auth/catalog", nil, &catalog); status != 200 || len(catalog.Catalog) == 0 {
		t.Errorf("the catalog: %d %v", status, catalog)
	}
	if r.logins != 1 {
		t.Errorf("%d logins, want 1", r.logins)
	}
}

func TestKeystoneWrongPassword(t *testing.T) {
	r := newReal(t, nil, "")
	r.host.Secret["password"] = "not the password"
	_, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url})
	if sdk.CodeOf(err) != abi.CodeUnauthenticated || !strings.Contains(err.Error(), "refused the password of the Secret") {
		t.Errorf("%v, want unauthenticated", err)
	}
	t.Log(err)
}

func TestKeystoneRevokedTokenIsRenewed(t *testing.T) {
	r := newReal(t, nil, "")
	first := r.token("")
	r.revoke(first)
	if status := r.do("", "GET", "/v3/auth/projects", nil, nil); status != 200 {
		t.Errorf("after the revocation: %d", status)
	}
	if second := r.token(""); second == first || r.logins != 2 {
		t.Errorf("%d logins, want 2 and another token", r.logins)
	}
}

func TestKeystoneExpiredTokenIsRenewed(t *testing.T) {
	r := newReal(t, nil, "")
	first := r.token("")
	r.host.Clock = r.host.Clock.Add(24 * time.Hour)
	if second := r.token(""); second == first || r.logins != 2 {
		t.Errorf("%d logins, want 2 and another token", r.logins)
	}
}

func TestKeystoneScopes(t *testing.T) {
	r := newReal(t, nil, "")
	me := r.whoAmI("")
	other := r.newProject(me.User.ID)
	r.must("PUT", "/v3/domains/default/users/"+me.User.ID+"/roles/"+r.adminRole(), nil, nil)
	if got := r.whoAmI("project:" + other); got.Project.ID != other {
		t.Errorf("project:%s: %+v", other, got)
	}
	if got := r.whoAmI("domain:default"); got.Domain.ID != "default" || got.Project.ID != "" {
		t.Errorf("domain:default: %+v", got)
	}
	if got := r.whoAmI("system"); !got.System.All {
		t.Errorf("system: %+v", got)
	}
	if got := r.whoAmI("unscoped"); got.Project.ID != "" || got.User.ID != me.User.ID {
		t.Errorf("unscoped: %+v", got)
	}
	if got := r.whoAmI(""); got.Project.Name != "admin" {
		t.Errorf("the default after all: %+v", got)
	}
	_, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url, CredentialScope: "project:doesnotexist"})
	if sdk.CodeOf(err) != abi.CodeUnauthenticated {
		t.Errorf("a project that does not exist: %v", err)
	}
}

func TestKeystoneApplicationCredential(t *testing.T) {
	admin := newReal(t, nil, "")
	me := admin.whoAmI("")
	other := admin.newProject(me.User.ID)
	var made struct {
		ApplicationCredential identified `json:"application_credential"`
	}
	path := "/v3/users/" + me.User.ID + "/application_credentials"
	body := map[string]any{"application_credential": map[string]any{"name": "ac-" + rand.Text()}}
	if status := admin.do("project:"+other, "POST", path, body, &made); status != 201 {
		t.Fatalf("making an application credential: %d", status)
	}
	for name, secret := range map[string]map[string]string{
		"by ID":   {"application_credential_id": made.ApplicationCredential.ID},
		"by name": {"application_credential_name": made.ApplicationCredential.Name, "username": "admin", "user_domain_name": "Default"},
	} {
		secret["application_credential_secret"] = made.ApplicationCredential.Secret
		r := newReal(t, secret, "")
		if got := r.whoAmI(""); got.Project.ID != other {
			t.Errorf("%s: %+v, want the project %s", name, got, other)
		}
		if got := r.whoAmI("project:" + other); got.Project.ID != other {
			t.Errorf("%s, its project: %+v", name, got)
		}
		_, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url, CredentialScope: "project:" + me.Project.ID})
		if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), "project that it was made in") {
			t.Errorf("%s, another project: %v", name, err)
		}
		r.host.Secret["application_credential_secret"] = "not the secret"
		if _, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url}); sdk.CodeOf(err) != abi.CodeUnauthenticated {
			t.Errorf("%s, a wrong secret: %v", name, err)
		}
	}
}

// Keystone refuses to rescope somebody else's token.
func TestKeystoneToken(t *testing.T) {
	admin := newReal(t, nil, "")
	other := admin.newProject(admin.whoAmI("").User.ID)
	given := admin.token("unscoped")
	r := newReal(t, map[string]string{"token": given}, "project_id: "+other)
	if got := r.whoAmI(""); got.Project.ID != other {
		t.Errorf("%+v, want the project %s", got, other)
	}
	r.revoke(given)
	r.host.Rejected("")
	if _, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url}); sdk.CodeOf(err) != abi.CodeUnauthenticated {
		t.Errorf("after the revocation: %v, want unauthenticated", err)
	}
}

func TestKeystoneRotation(t *testing.T) {
	admin := newReal(t, nil, "")
	var made struct{ User identified }
	admin.must("POST", "/v3/users", map[string]any{"user": map[string]any{
		"name": "u-" + rand.Text(), "domain_id": "default", "password": "first password",
	}}, &made)
	project := admin.newProject(made.User.ID)
	r := newReal(t, map[string]string{"user_id": made.User.ID, "password": "first password"}, "project_id: "+project)
	r.whoAmI("")
	admin.must("PATCH", "/v3/users/"+made.User.ID, map[string]any{"user": map[string]any{"password": "second password"}}, nil)
	r.host.Rejected("")
	if _, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url}); sdk.CodeOf(err) != abi.CodeUnauthenticated {
		t.Errorf("the old password: %v, want unauthenticated", err)
	}
	r.host.Secret = map[string]string{"user_id": made.User.ID, "password": "second password"}
	r.renewUntilAccepted()
	if got := r.whoAmI(""); got.User.ID != made.User.ID || got.Project.ID != project {
		t.Errorf("the new password: %s", fmt.Sprint(got))
	}
}

func TestKeystoneWrongURL(t *testing.T) {
	r := newReal(t, nil, "")
	r.host.Configure(&signer{}, "auth_url: "+r.url+"/elsewhere")
	_, err := r.host.Sign(&abi.HttpRequest{Method: "GET", Url: r.url})
	if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), "check that auth_url") {
		t.Errorf("%v, want a hint at auth_url", err)
	}
}
