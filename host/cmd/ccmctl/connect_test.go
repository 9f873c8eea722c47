package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// hostileText is what a terminal must not get: a clipboard, a title, a line that was not said.
const hostileText = "a\x1b]52;c;cm0gLXJm\x07\u009b2J\u202e\r\nProvider b: fine"

// hostileJSON is hostileText in JSON.
const hostileJSON = `"a\u001b]52;c;cm0gLXJm\u0007\u009b2J\u202e\r\nProvider b: fine"`

// Whoever answers in a manager's place writes nothing to the terminal but text.
func TestAnswersAreText(t *testing.T) {
	answer, code := "", http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	client := newManagerClient(server.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {})
	t.Cleanup(client.close)

	answer = `{"manager": {"version": ` + hostileJSON + `, "started": "2026-01-01T00:00:00Z"}, "providers": [{"name": "a", "generation": 12345678901234567, "phase": ` + hostileJSON +
		`, "message": ` + hostileJSON + `, "stuck": [{"object": {"kind": "Node", "name": ` + hostileJSON + `}, "message": ` + hostileJSON + `}]}]}`
	status, err := client.status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := status.Providers[0].Generation; n != 12345678901234567 {
		t.Errorf("the generation is %d", n)
	}
	for _, output := range outputs {
		var out bytes.Buffer
		if err := printStatus(&out, output, status); err != nil {
			t.Fatal(err)
		}
		checkText(t, output, out.String())
	}
	for _, code = range []int{http.StatusForbidden, http.StatusServiceUnavailable} {
		for _, answer = range []string{`{"message": ` + hostileJSON + `}`, hostileText} {
			err := client.get(t.Context(), v1alpha1.StatusPath, nil, status)
			if err == nil {
				t.Fatal("no error")
			}
			checkText(t, "an error", err.Error())
		}
	}
}

func checkText(t *testing.T, what, said string) {
	t.Helper()
	if strings.ContainsAny(said, "\x1b\x07\r\u009b\u202e") || strings.Contains(said, "\nProvider b") {
		t.Errorf("%s: %q", what, said)
	}
}
