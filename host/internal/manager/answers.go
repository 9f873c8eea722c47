package manager

import (
	"fmt"
	"io"
	"net/http"

	restclient "k8s.io/client-go/rest"
)

// maxAnswer bounds an answer of the API server, in bytes after decompression: a list of 5,000
// Nodes has some 75 MB. Watches are unbounded; client-go bounds each of their events, by 16 MiB.
const maxAnswer = 128 << 20

// boundAnswers makes all later clients of the configuration refuse longer
// answers.
func boundAnswers(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return answerTripper{next} })
}

// answerTripper is an http.RoundTripper.
type answerTripper struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answerTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") != "" {
		return response, err
	}
	// Invariant M42 (host/SECURITY.md): no answer is read for ever.
	response.Body = &boundedAnswer{response.Body, maxAnswer, r}
	return response, nil
}

// boundedAnswer is the body of an answer.
type boundedAnswer struct {
	io.ReadCloser
	left    int64
	request *http.Request
}

// Read implements io.Reader.
func (a *boundedAnswer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, fmt.Errorf("the answer of the API server to %s %s has more than %d MiB", a.request.Method, a.request.URL.Path, maxAnswer>>20)
	}
	return n, err
}

// WrappedRoundTripper implements client-go's RoundTripperWrapper.
func (a answerTripper) WrappedRoundTripper() http.RoundTripper { return a.next }
