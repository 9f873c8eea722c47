package conformance

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
)

// ear hears all that a guest says: errors, log lines, Events, before and after
// the host has scrubbed them. It looks for secrets in it and keeps nothing.
type ear struct {
	secrets []string

	mu   sync.Mutex
	said int
	hits []string
}

const maxHits = 10

// hear looks at a text; where says where it was seen.
func (e *ear) hear(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said++
	for _, secret := range e.secrets {
		if strings.Contains(text, secret) && len(e.hits) < maxHits {
			// Not the text itself: the report would repeat the secret.
			e.hits = append(e.hits, fmt.Sprintf("%s holds a secret of %d bytes", where, len(secret)))
		}
	}
}

// heard returns how much was said, and what should not have been.
func (e *ear) heard() (said int, hits []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said, append([]string(nil), e.hits...)
}

func (e *ear) logger() logr.Logger {
	return funcr.New(func(_, args string) { e.hear("a line of the log", args) }, funcr.Options{Verbosity: 10})
}

// Event is hostfunc.EventRecorder.
func (e *ear) Event(_ runtime.Object, _, reason, message string) {
	e.hear("an Event", reason+" "+message)
}
