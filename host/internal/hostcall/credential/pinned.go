package credential

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
)

// Pinned keeps Secrets as they were at the first read, so that a generation keeps the values
// of its probe: a wrong password is tried with a generation of its own. Deleted Secrets are
// gone at once. It is safe for concurrent use.
type Pinned struct {
	secrets *WatchedSecrets
	changed chan struct{}

	mu     sync.Mutex
	pins   map[types.NamespacedName]pin
	follow bool
}

type pin struct {
	data    map[string][]byte
	version string
}

// NewPinned pins the values of the watched Secrets. It is called once, before they run.
func NewPinned(secrets *WatchedSecrets) *Pinned {
	p := &Pinned{secrets: secrets, changed: make(chan struct{}, 1), pins: map[types.NamespacedName]pin{}}
	for _, s := range secrets.secrets {
		s.changed = func(event informer.Event) {
			if event == informer.Deleted || p.differs(s) {
				p.signal()
			}
		}
	}
	return p
}

// Get implements Secrets.
func (p *Pinned) Get(ctx context.Context, namespace, name string) (map[string][]byte, string, error) {
	// Invariant S8 (host/SECURITY.md): a deleted Secret is an error, pinned or not.
	data, version, err := p.secrets.Get(ctx, namespace, name)
	if err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follow {
		return data, version, nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	// Invariant S8 (host/SECURITY.md): a generation gets its first values until newer values
	// have proved right.
	if _, ok := p.pins[key]; !ok {
		p.pins[key] = pin{data, version}
	}
	return p.pins[key].data, p.pins[key].version, nil
}

// Follow ends the pinning: newer values have proved right, and the cloud may no longer
// accept the old ones.
func (p *Pinned) Follow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow = true
}

// Changed has a value after a Secret has changed from its pin, or was deleted. One reader
// may use it.
func (p *Pinned) Changed() <-chan struct{} { return p.changed }

// Version pins every existing Secret, after each was read, and names them. It contains
// nothing of their values.
func (p *Pinned) Version(ctx context.Context) string {
	h := sha256.New()
	names := slices.SortedFunc(maps.Keys(p.secrets.secrets), func(a, b types.NamespacedName) int {
		return bytes.Compare([]byte(a.String()), []byte(b.String()))
	})
	for _, name := range names {
		_, version, err := p.Get(ctx, name.Namespace, name.Name)
		if err != nil {
			version = "missing"
		}
		_, _ = h.Write([]byte(name.String() + "=" + version + "\n")) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// differs compares a Secret with its pin. An unpinned one has appeared after Version.
func (p *Pinned) differs(s *watchedSecret) bool {
	secret, err := s.Get()
	if err != nil || secret == nil {
		return false
	}
	p.mu.Lock()
	pinned, known := p.pins[s.name]
	p.mu.Unlock()
	return !known || !maps.EqualFunc(pinned.data, secret.Data, bytes.Equal)
}

func (p *Pinned) signal() {
	select {
	case p.changed <- struct{}{}:
	default: // a signal is pending
	}
}
