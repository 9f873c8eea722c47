package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// hostileText is harmful on a terminal: a clipboard, a title, a forged line.
const hostileText = "a\x1b]52;c;cm0gLXJm\x07\u009b2J\u202e\r\nProvider b: fine"

// hostileJSON is hostileText in JSON.
const hostileJSON = `"a\u001b]52;c;cm0gLXJm\u0007\u009b2J\u202e\r\nProvider b: fine"`

// A false manager writes only plain text to the terminal.
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

// The largest answer of a manager is read completely. A larger one is reported
// with its size, and not as malformed.
func TestLargeAnswers(t *testing.T) {
	size := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const begin, end = `{"manager": {"version": "`, "\"}}\n"
		_, _ = io.WriteString(w, begin+strings.Repeat("v", size-len(begin)-len(end))+end)
	}))
	t.Cleanup(server.Close)
	client := newManagerClient(server.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {})
	connected := &connection{connect: func() (*managerClient, error) { return client, nil }}
	t.Cleanup(connected.drop)
	d := &dashboard{connection: connected, host: "127.0.0.1:1", key: "KEY"}
	for name, ask := range map[string]func() error{
		"status":       func() error { _, err := client.status(t.Context()); return err },
		"reachability": func() error { _, err := client.reachability(t.Context()); return err },
		"calls":        func() error { return connected.get(t.Context(), v1alpha1.CallsPath, &v1alpha1.Calls{}) },
		"dashboard": func() error {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/KEY"+v1alpha1.PagePath, nil))
			if w.Code != http.StatusOK {
				return errors.New(w.Body.String())
			}
			return nil
		},
	} {
		size = v1alpha1.MaxAnswer
		if err := ask(); err != nil {
			t.Errorf("%s: of the largest answer: %v", name, err)
		}
		size++
		if err := ask(); err == nil || !strings.Contains(err.Error(), "the answer has more than 4 MiB") {
			t.Errorf("%s: of a larger answer: %v", name, err)
		}
	}
}

func checkText(t *testing.T, what, said string) {
	t.Helper()
	if strings.ContainsAny(said, "\x1b\x07\r\u009b\u202e") || strings.Contains(said, "\nProvider b") {
		t.Errorf("%s: %q", what, said)
	}
}
