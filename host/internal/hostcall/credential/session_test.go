package credential

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// sessionCloud logs in, and says who sends a request. It repeats all that it got.
type sessionCloud struct {
	mu     sync.Mutex
	logins int
	give   func(w http.ResponseWriter, id string)
	bring  func(r *http.Request) string
}

func (s *sessionCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), "s3cr3t") || r.Header.Get("Authorization") == "Basic dXNlcjpzM2NyM3QtczNjcjN0" {
		s.logins++
		s.give(w, fmt.Sprintf("real-session-%d", s.logins))
		return
	}
	_, _ = fmt.Fprintf(w, "you bring %q", s.bring(r))
}

func cookieCloud() *sessionCloud {
	return &sessionCloud{
		give: func(w http.ResponseWriter, id string) {
			http.SetCookie(w, &http.Cookie{Name: "other", Value: "stays", Path: "/"})
			w.Header().Add("Set-Cookie", `vmware_soap_session="`+id+`"; Path=/; HttpOnly; Secure`)
			_, _ = fmt.Fprintf(w, "<key>%s</key>", id)
		},
		bring: func(r *http.Request) string { return strings.Join(r.Header["Cookie"], "|") },
	}
}

// placeholderOf returns the value of the provider's cookie.
func placeholderOf(t testing.TB, got answer, name string) string {
	t.Helper()
	for _, line := range got.header["Set-Cookie"] {
		if cookie, err := http.ParseSetCookie(line); err == nil && cookie.Name == name {
			return cookie.Value
		}
	}
	t.Fatalf("no cookie %s in %q", name, got.header)
	return ""
}

// TestAProviderHasNoSession: it gets a placeholder, the cloud gets the session.
func TestAProviderHasNoSession(t *testing.T) {
	url := serve(t, cookieCloud().ServeHTTP)
	set, _ := newTestSet(t, soapSecrets(), soapLogin(t))
	got := send(t, set, "", "POST", url+"/sdk", "the-host-has-it")
	placeholder := placeholderOf(t, got, "vmware_soap_session")
	if all := fmt.Sprint(got); strings.Contains(all, "real-session") || !strings.HasPrefix(placeholder, "session-") ||
		!strings.Contains(all, "HttpOnly; Secure") || !strings.Contains(all, "<key>"+placeholder+"</key>") || placeholderOf(t, got, "other") != "stays" {
		t.Errorf("the provider gets %s", all)
	}
	got = send(t, set, "", "POST", url+"/sdk", "list", "Cookie", `a=b; vmware_soap_session="`+placeholder+`"; c=d`)
	if want := `you bring "a=b; c=d; vmware_soap_session=\"real-session-1\""`; got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	if got := string(set.Scrub([]byte(got.body))); strings.Contains(got, "real-session") {
		t.Errorf("a session that comes back is not scrubbed: %s", got)
	}
	second := placeholderOf(t, send(t, set, "", "POST", url+"/sdk", "the-host-has-it", "Cookie", "vmware_soap_session="+placeholder), "vmware_soap_session")
	if second == placeholder {
		t.Error("two logins gave one session")
	}
}

// TestOnlyAKnownPlaceholderBringsASession: no other way of writing a cookie does,
// no other host gets it, nor a Set of another generation, nor a new Secret.
func TestOnlyAKnownPlaceholderBringsASession(t *testing.T) {
	url, other := serve(t, cookieCloud().ServeHTTP), serve(t, cookieCloud().ServeHTTP)
	secrets := soapSecrets()
	set, clock := newTestSet(t, secrets, soapLogin(t))
	next, err := NewSet(secrets, []Spec{set.credentials["cloud"].spec}, Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	login := func() string {
		return placeholderOf(t, send(t, set, "", "POST", url+"/sdk", "the-host-has-it"), "vmware_soap_session")
	}
	placeholder := login()
	for name, cookie := range map[string]string{
		"the session itself":        "vmware_soap_session=real-session-1",
		"in quotes":                 `vmware_soap_session="real-session-1"`,
		"in upper case":             "VMWARE_SOAP_SESSION=real-session-1",
		"with spaces":               " vmware_soap_session = real-session-1 ",
		"with a comma":              "a=b, vmware_soap_session=real-session-1",
		"with a version":            `$Version=1; vmware_soap_session=real-session-1; $Path=/`,
		"inside quotes":             `a="b; vmware_soap_session=real-session-1"`,
		"a part of the placeholder": "vmware_soap_session=" + placeholder[:20],
		"none":                      "vmware_soap_session=",
	} {
		got := send(t, set, "", "POST", url+"/sdk", "list", "Cookie", cookie, "cookie2", cookie)
		if strings.Contains(strings.ToLower(got.body), "real-session") || strings.Contains(strings.ToLower(got.body), "vmware") {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	brings := func(set *Set, url string) bool {
		return strings.Contains(send(t, set, "", "POST", url+"/sdk", "list", "Cookie", "vmware_soap_session="+placeholder).body, "real-session")
	}
	if brings(set, other) || brings(next, url) || !brings(set, url) {
		t.Error("a session serves somewhere else, or not at all")
	}
	for range maxSessions - 1 {
		login()
	}
	if !brings(set, url) {
		t.Error("a session is forgotten too early")
	}
	login()
	if !brings(set, url) {
		t.Error("the session that was used last is forgotten")
	}
	if n := len(set.credentials["cloud"].sessions.known); n != maxSessions {
		t.Errorf("%d sessions", n)
	}
	secrets.set("username", "u", "password", "s3cr3t, the next")
	if brings(set, url) {
		t.Error("a session of another Secret serves")
	}
	login()
	if n := len(set.credentials["cloud"].sessions.known); n != 1 {
		t.Errorf("%d sessions, one is of this Secret", n)
	}
	if got := string(set.Scrub([]byte("real-session-1, real-session-66"))); strings.Contains(got, "real") {
		t.Errorf("forgotten sessions are not scrubbed: %s", got)
	}
	clock.SetTime(start.Add(keepOld + time.Second))
	login()
	if got := string(set.Scrub([]byte("real-session-1"))); got != "real-session-1" {
		t.Errorf("sessions are scrubbed for ever: %s", got)
	}
}

// TestCookiesThatAreNotHandedOn: what cannot be a session, or cannot be read.
func TestCookiesThatAreNotHandedOn(t *testing.T) {
	for line, want := range map[string]string{
		"VMWARE_SOAP_SESSION=real-session-1":                              "VMWARE_SOAP_SESSION=session-",
		"vmware_soap_session=short":                                       "",
		"vmware_soap_session=real-\x01":                                   "",
		" =real-session":                                                  "",
		"vmware_soap_session=":                                            "vmware_soap_session=",
		"vmware_soap_session=real-session-1; Max-Age=0":                   "vmware_soap_session=; Max-Age=0",
		"vmware_soap_session=" + strings.Repeat("r", maxSessionBytes+1):   "",
		"vmware_soap_session=real-session-1; Expires=Wed, 01 Jan 2020 00": "vmware_soap_session=session-",
		"other=value": "other=value",
	} {
		set, _ := newTestSet(t, soapSecrets(), soapLogin(t))
		req := newRequest(t, "https://cloud.example/sdk")
		answered, err := set.Apply(t.Context(), "cloud", "", req, nil)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{"Set-Cookie": {line}, "Set-Cookie2": {line}}
		answered(200, header, nil)
		got := strings.Join(header["Set-Cookie"], "|")
		if !strings.HasPrefix(got, want) || want == "" && got != "" || strings.Contains(got, "real-") || header["Set-Cookie2"] != nil {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestManyCookiesOfASessionFillNothing: however often a cloud sets its cookie, the
// body grows by no more than one placeholder for each place.
func TestManyCookiesOfASessionFillNothing(t *testing.T) {
	for name, value := range map[string]func(int) string{
		"what placeholders begin with": func(int) string { return "session-" },
		"the same":                     func(int) string { return "real-session" },
		"another one each time":        func(i int) string { return fmt.Sprintf("real-session-%04d", i) },
	} {
		set, _ := newTestSet(t, soapSecrets(), soapLogin(t))
		answered, err := set.Apply(t.Context(), "cloud", "", newRequest(t, "https://cloud.example/sdk"), nil)
		if err != nil {
			t.Fatal(err)
		}
		header, body := http.Header{}, ""
		for i := range 1000 {
			header.Add("Set-Cookie", "vmware_soap_session="+value(i))
			body += value(i) + " "
		}
		got := answered(200, header, []byte(body))
		if len(got) > 5*len(body) {
			t.Errorf("%s: a body of %d bytes has become one of %d", name, len(body), len(got))
		}
		for _, line := range header["Set-Cookie"] {
			if strings.Contains(line, "real") {
				t.Errorf("%s: the cookie %q is handed on", name, line)
			}
		}
		if n := len(set.credentials["cloud"].sessions.known); n > maxCookies {
			t.Errorf("%s: %d sessions of one answer", name, n)
		}
	}
}

// TestASessionOfABasicLogin is vCenter's other API: the password goes along with
// requests without a session only.
func TestASessionOfABasicLogin(t *testing.T) {
	for field, answer := range map[string]string{"value": `{"value": %q}`, "data.token": `{"data": {"token": %q}}`, ".": `%q`} {
		cloud := &sessionCloud{
			give:  func(w http.ResponseWriter, id string) { _, _ = fmt.Fprintf(w, answer, id) },
			bring: func(r *http.Request) string { return r.Header.Get("X-Session") + r.Header.Get("Authorization") },
		}
		url := serve(t, cloud.ServeHTTP)
		secrets := newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t")
		set, _ := newTestSet(t, secrets, Spec{Basic: &Basic{}, Session: &Session{Header: "X-Session", Field: field}})
		got := send(t, set, "", "POST", url+"/session", "", "Authorization", "Basic x", "X-Session", "real-session-1")
		_, rest, _ := strings.Cut(got.body, "session-")
		placeholder, _, _ := strings.Cut("session-"+rest, `"`)
		if want := fmt.Sprintf(answer, placeholder); got.body != want || len(placeholder) < 20 {
			t.Errorf("field %s: %s", field, got.body)
		}
		if got := send(t, set, "", "GET", url+"/list", "", "X_Session", "mine", "X-Session", placeholder); got.body != `you bring "real-session-1"` {
			t.Errorf("field %s: %s", field, got.body)
		}
		if got := send(t, set, "", "GET", url+"/list", "", "X-Session", "Bearer "+placeholder); got.body != `you bring "Bearer real-session-1"` {
			t.Errorf("field %s: %s", field, got.body)
		}
		if cloud.logins != 1 {
			t.Errorf("%d logins", cloud.logins)
		}
	}
}

// TestAWrongPasswordOfABasicLogin: only what says that the password is wrong
// counts, since any request without a session may be one.
func TestAWrongPasswordOfABasicLogin(t *testing.T) {
	status, seen := http.StatusUnauthorized, 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		seen++
		w.WriteHeader(status)
	})
	set, clock := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t"), Spec{Basic: &Basic{}, Session: &Session{Header: "X-Session", Field: "value"}})
	for range 3 {
		_, err := trySend(t, set, "", "POST", url+"/session", "")
		if err != nil {
			refused(t, err, abi.CodeUnauthenticated, "the cloud answered 401 to the login")
		}
	}
	status = http.StatusForbidden
	for i := range 3 {
		clock.SetTime(start.Add(time.Duration(i+1) * time.Minute))
		send(t, set, "", "GET", url+"/list", "")
		send(t, set, "", "GET", url+"/list", "")
	}
	if seen != 7 {
		t.Errorf("%d requests", seen)
	}
}

// TestAnswersWithoutASession: nothing is taken out of what is no login's.
func TestAnswersWithoutASession(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"an error":       {401, `{"value": "not-a-session"}`, `{"value": "not-a-session"}`},
		"no JSON":        {200, "hello", "hello"},
		"another field":  {200, `{"other": "x"}`, `{"other": "x"}`},
		"another kind":   {200, `{"value": {"value": "x"}}`, `{"value": {"value": "x"}}`},
		"too short":      {200, `{"value": "x"}`, ""},
		"an empty value": {200, `{"value": ""}`, `{"value": ""}`},
	} {
		set, _ := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t"), Spec{Basic: &Basic{}, Session: &Session{Header: "X-Session", Field: "value"}})
		answered, err := set.Apply(t.Context(), "cloud", "", newRequest(t, "https://cloud.example/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(answered(test.status, http.Header{}, []byte(test.body))); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
