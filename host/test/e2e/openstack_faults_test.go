//go:build openstack

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fault is a way in which a cloud fails.
type fault struct {
	name   string
	answer http.HandlerFunc
	// want is what the Event on the Service says.
	want string
}

func status(code int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, body)
	}
}

// faults are those of the issue, with what a user sees of each.
func faults() []fault {
	const jsonType = "application/json"
	octavia := func(code int, text string) http.HandlerFunc {
		return status(code, jsonType, fmt.Sprintf(`{"faultcode": "Client", "faultstring": %q, "debuginfo": null}`, text))
	}
	return []fault{
		{"401", octavia(401, "not you"), `401 Unauthorized: not you; check the Secret of the credential`},
		{"403", octavia(403, "Policy does not allow this request to be performed."), `403 Forbidden: Policy does not allow this .*; the user's roles`},
		{"404", octavia(404, "nothing here"), `404 Not Found: nothing here`},
		{"409", octavia(409, "is immutable and cannot be updated."), `409 Conflict: is immutable`},
		{"413", status(413, jsonType, `{"overLimit": {"code": 413, "message": "slow down"}}`, "Retry-After", "7"), `413 Too Large: slow down`},
		{"429", status(429, jsonType, `{"error": {"code": 429, "message": "slow down"}}`, "Retry-After", "7"), `429 Too Many Requests: slow down`},
		{"500", octavia(500, "An unknown exception occurred."), `500 Internal Server Error: An unknown exception`},
		{"503", status(503, "text/html", "<html><head><title>503 Service Unavailable</title></head><body>no server</body></html>"), `503 Service Unavailable: a page of HTML: 503 Service Unavailable`},
		{"reset", reset, `(EOF|reset|unavailable)`},
		{"hang", hang, `(deadline|did not answer|timeout|in progress)`},
		{"truncated JSON", truncated, `(unexpected EOF|cannot be used|unexpected end of JSON)`},
		{"HTML with 200", status(200, "text/html", "<html><title>Welcome</title></html>"), `it is not JSON .*begins with "<html>`},
		{"an empty object", status(200, jsonType, `{}`), `it has no "`},
	}
}

func reset(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, `{"loadbalancers": [{"id": "x", "na`)
}

// TestOpenStackFaults lets Octavia and Nova fail in every way: the user is told
// what, nothing is deleted, and all is well when the cloud is.
func TestOpenStackFaults(t *testing.T) {
	o := newOpenStack(t, "faults")
	servers := o.servers(t, 2, "node")
	m := o.start(t, "a", o.cloudConf(""))
	for name := range servers {
		o.kubelet(t, name, "")
	}
	o.awaitInitialized(t.Context(), t, m)
	o.service(t, "kept", nil)
	o.awaitOVN(t, m)
	for i, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			o.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if service := strings.Fields(kindOfCall(r))[1]; service != "octavia" && service != "nova" {
					return false
				}
				f.answer(w, r)
				return true
			})
			name := fmt.Sprintf("fault-%d", i)
			o.heartbeat(t, "node-0", corev1.ConditionFalse) // the lifecycle controller asks, too
			o.service(t, name, nil)
			t.Logf("%s: %s", f.name, o.awaitEvent(t, m, name, f.want))
			o.proxy.setFault(nil)
			o.heartbeat(t, "node-0", corev1.ConditionTrue)
			o.awaitOVN(t, m)
			if _, err := o.client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{}); err != nil {
				t.Errorf("the Node: %v", err)
			}
			o.removeService(t, name)
			o.awaitOVN(t, m)
			o.checkNoSecret(t, m)
		})
	}
}

// TestOpenStackCredentials: a token that ends, and a password that is changed.
func TestOpenStackCredentials(t *testing.T) {
	o := newOpenStack(t, "credentials")
	m := o.start(t, "a", o.cloudConf(""))
	for name := range o.servers(t, 1, "node") {
		o.kubelet(t, name, "")
	}
	o.awaitInitialized(t.Context(), t, m)
	t.Run("expired token", func(t *testing.T) { o.expire(t, m) })
	t.Run("wrong password", func(t *testing.T) { o.wrongPassword(t, m) })
}

// awaitEvent waits for an Event on a Service, and returns its message.
func (o *openStack) awaitEvent(t *testing.T, m *manager, service, want string) (message string) {
	t.Helper()
	re := regexp.MustCompile(want)
	o.until(t.Context(), t, m, "an Event on "+service+" with "+want, func() (bool, string) {
		events, err := o.client.CoreV1().Events(o.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + service})
		if err != nil {
			return false, err.Error()
		}
		seen := ""
		for _, e := range events.Items {
			seen += e.Reason + " " + e.Message + "\n"
			if e.Type == corev1.EventTypeWarning && re.MatchString(e.Message) {
				message = e.Message
			}
		}
		return message != "", seen
	})
	return message
}

func (o *openStack) checkNoSecret(t *testing.T, m *manager) {
	t.Helper()
	if log := readFile(m.logPath); regexp.MustCompile(`gAAAA[A-Za-z0-9_-]{20}`).MatchString(log) {
		t.Error("there is a token in the log")
	}
}

// expire ends the token that the manager uses: it gets another one from
// Keystone, and the user sees nothing of it. It is the proxy that refuses the old
// one: the services take a revoked token for five minutes more.
func (o *openStack) expire(t *testing.T, m *manager) {
	tokens := make(chan string, 1)
	o.proxy.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case tokens <- r.Header.Get("X-Auth-Token"):
		default:
		}
		return false
	})
	o.service(t, "before", nil)
	o.awaitOVN(t, m)
	old := <-tokens
	o.proxy.reset()
	o.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Auth-Token") != old {
			return false
		}
		w.Header().Set("Www-Authenticate", "Keystone uri="+o.rc.AuthURL)
		http.Error(w, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`, http.StatusUnauthorized)
		return true
	})
	o.service(t, "after", nil)
	o.awaitOVN(t, m)
	o.proxy.setFault(nil)
	counts, _, _ := o.proxy.calls()
	if counts["POST keystone /v3/auth/tokens"] != 1 {
		t.Errorf("want one new token:\n%s", table(counts))
	}
	events, err := o.client.CoreV1().Events(o.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=after"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.Contains(e.Message, "401") {
			t.Errorf("the user sees %s", e.Message)
		}
	}
	o.removeService(t, "before")
	o.removeService(t, "after")
	o.awaitOVN(t, m)
}

// wrongPassword: the Secret is changed to a wrong one, the values before stay
// in use, and who looks is told.
func (o *openStack) wrongPassword(t *testing.T, m *manager) {
	o.secret(t, "a-wrong-password")
	re := regexp.MustCompile(`Keystone answered 401: it refused the password`)
	o.until(t.Context(), t, m, "the Event that the password is wrong", func() (bool, string) {
		events, err := o.client.CoreV1().Events(o.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ConfigMap"})
		if err != nil {
			return false, err.Error()
		}
		seen := ""
		for _, e := range events.Items {
			seen += e.Reason + " " + e.Message + "\n"
			if re.MatchString(e.Message) {
				t.Log(e.Message)
				return true, ""
			}
		}
		return false, seen
	})
	o.service(t, "still", nil)
	o.awaitOVN(t, m)
	if log := readFile(m.logPath); strings.Contains(log, "a-wrong-password") {
		t.Error("the log has the password")
	}
	o.secret(t, o.rc.Users["kubernetes"].Password)
	o.removeService(t, "still")
	o.awaitOVN(t, m)
}
