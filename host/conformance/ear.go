package conformance

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
)

// ear receives every text of a guest: errors, log lines, Events, before and
// after the host's scrubbing. It searches them for secrets, and keeps lines
// only while there is a listener.
type ear struct {
	secrets []string

	mu   sync.Mutex
	said int
	hits []string
	kept []string // scrubbed lines
	open bool
}

const maxHits = 10

// hear checks a text; where names its source.
func (e *ear) hear(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said++
	for _, secret := range e.secrets {
		if strings.Contains(text, secret) && len(e.hits) < maxHits {
			// The text itself is left out: the report would repeat the secret.
			e.hits = append(e.hits, fmt.Sprintf("%s holds a secret of %d bytes", where, len(secret)))
		}
	}
}

// heard returns the number of texts, and the texts with a secret.
func (e *ear) heard() (said int, hits []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said, append([]string(nil), e.hits...)
}

// maxKept bounds the lines kept for a listener.
const maxKept = 1000

// listen keeps lines of the log and Events from now on; heard returns them.
func (e *ear) listen() (heard func() []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open, e.kept = true, []string{}
	return func() []string {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.kept
	}
}

func (e *ear) keep(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open && len(e.kept) < maxKept {
		e.kept = append(e.kept, line)
	}
}

func (e *ear) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		e.hear("a line of the log", args)
		e.keep("log " + args)
	}, funcr.Options{Verbosity: 10})
}

// Event implements hostfunc.EventRecorder.
func (e *ear) Event(_ runtime.Object, kind, reason, message string) {
	e.hear("an Event", reason+" "+message)
	e.keep("event " + kind + " " + reason + ": " + message)
}
