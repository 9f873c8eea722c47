package credential

import (
	"net/http"
	"sync"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// maxScopes bounds the remembered scopes of a credential.
const maxScopes = 64

// minWordBytes is the length of the shortest header word that is scrubbed on its own, so
// that names of schemes stay readable.
const minWordBytes = 12

// scopes remember a signer's answers by scope. The least recently used ones are forgotten.
type scopes struct {
	redacted
	holder holder
	clock  clock.PassiveClock

	mu     sync.Mutex
	byName map[string]*scope
	uses   uint64
}

// scope is the state of one scope.
type scope struct {
	redacted
	name    string
	renewal *renewal[signed]

	// The fields below belong to scopes.mu.
	lastUse  uint64
	mu       *sync.Mutex
	version  string // the Secret's, at the time of state
	state    []byte
	rejected bool
	once     bool // the last answer was for one request only
}

func newScopes(h holder, clock clock.PassiveClock) *scopes {
	return &scopes{holder: h, clock: clock, byName: map[string]*scope{}}
}

func (s *scopes) get(name string) *scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.byName[name]
	if out == nil {
		s.makeRoom()
		out = &scope{name: name, renewal: newRenewal[signed](s.clock), mu: &s.mu}
		s.byName[name] = out
	}
	s.uses++
	out.lastUse = s.uses
	return out
}

func (s *scopes) makeRoom() {
	if len(s.byName) < maxScopes {
		return
	}
	var oldest *scope
	for _, candidate := range s.byName {
		if oldest == nil || candidate.lastUse < oldest.lastUse {
			oldest = candidate
		}
	}
	delete(s.byName, oldest.name)
	s.holder.hold("scope/" + oldest.name)
}

// load returns the signer's state; the state for another version of the Secret is dropped.
func (s *scope) load(version string) (state []byte, rejected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != version {
		s.version, s.state, s.rejected, s.once = version, nil, false, false
	}
	return s.state, s.rejected
}

// servesOnce reports whether the signer's answers are for one request only.
func (s *scope) servesOnce(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.once && s.version == version
}

// keep remembers an answer and has it scrubbed.
func (s *scopes) keep(of *scope, c *call, resp *abi.SignResponse, l lease[signed]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.once = l.until.IsZero()
	of.rejected = false
	if of.version == c.version {
		of.state = resp.State
	}
	lasting := [][]byte{resp.State}
	if once := secretsOf(resp); of.once {
		s.holder.holdOnce(once...)
	} else {
		lasting = append(lasting, once...)
	}
	if s.byName[of.name] == of {
		s.holder.hold("scope/"+of.name, lasting...)
	} else { // forgotten in the meantime
		s.holder.holdOnce(lasting...)
	}
}

// secretsOf returns the secrets in an answer: values of headers and parameters, and their
// longer words, since a server may repeat a token without the name of the scheme.
func secretsOf(resp *abi.SignResponse) [][]byte {
	var out [][]byte
	for _, h := range resp.Headers {
		if plainHeader(h.Name) {
			continue
		}
		out = append(out, []byte(h.Value))
		out = append(out, words(h.Value, minWordBytes)...)
	}
	for _, p := range resp.Query {
		if len(p.Value) >= minWordBytes {
			out = append(out, []byte(p.Value))
		}
	}
	return out
}

// plainHeader reports whether a header is never secret, and occurs in responses as well.
func plainHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept", "Content-Encoding", "Content-Language", "Content-Type", "Date", "Digest", "User-Agent":
		return true
	}
	return false
}

// reject has the answer for a scope renewed. It reports whether that can help.
func (s *scopes) reject(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byName[name]
	if of == nil {
		return false
	}
	renewed, dropped := of.renewal.drop()
	if dropped {
		of.rejected = true
		// Without a state there was no token to renew.
		renewed = !of.once || len(of.state) > 0
	}
	return renewed
}
