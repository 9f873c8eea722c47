package manager

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/test/peak"
)

// A list without an end is an error that names the request.
func TestAnswersOfTheAPIServerTakeLittle(t *testing.T) {
	peak.Test(t, []peak.Case{{Name: "a list without an end", Most: 400, Read: func(t *testing.T, hostile bool) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, `{"kind":"ServiceList","apiVersion":"v1","items":[`)
			for item := strings.Repeat(`{"metadata":{"name":"x"}},`, 1000); hostile && err == nil; {
				_, err = io.WriteString(w, item)
			}
			_, _ = io.WriteString(w, `]}`) // the client may be gone
		}))
		defer server.Close()
		config := &restclient.Config{Host: server.URL}
		boundAnswers(config)
		client, err := newClient(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if hostile != (err != nil && strings.Contains(err.Error(), "the answer of the API server to GET /api/v1/services has more than 128 MiB")) {
			t.Errorf("hostile: %v, error %v", hostile, err)
		}
	}}})
}
