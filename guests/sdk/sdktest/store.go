package sdktest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Store is a durable map with compare-and-swap. It is safe for concurrent use.
type Store struct {
	// BeforeWrite runs before each write, without a lock: a test may write
	// here, as another manager would. Nil does nothing.
	BeforeWrite func()

	mu      sync.Mutex
	version int
	entries map[string][]byte
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{entries: map[string][]byte{}} }

// Entries returns a copy of the entries.
func (s *Store) Entries() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make(map[string]string, len(s.entries))
	for key, value := range s.entries {
		entries[key] = string(value)
	}
	return entries
}

// Put sets a value, regardless of the version.
func (s *Store) Put(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.entries[key] = []byte(value)
}

// Writes returns the number of writes.
func (s *Store) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Store) answer(req *abi.StoreRequest) (*abi.StoreResponse, error) {
	if req.Write != nil && s.BeforeWrite != nil {
		s.BeforeWrite()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Write == nil {
		return &abi.StoreResponse{Version: s.name(), Entries: s.read(req.Prefix)}, nil
	}
	if req.Write.Version != s.name() {
		return nil, &abi.Error{Code: abi.CodeConflict, Message: "the store has changed since version " + req.Write.Version}
	}
	for _, key := range req.Write.Delete {
		delete(s.entries, key)
	}
	for _, entry := range req.Write.Put {
		if !isKey(entry.Key) || slices.Contains(req.Write.Delete, entry.Key) {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("cannot put the key %q", entry.Key)}
		}
		s.entries[entry.Key] = slices.Clone(entry.Value)
	}
	s.version++
	return &abi.StoreResponse{Version: s.name()}, nil
}

func (s *Store) name() string { return fmt.Sprintf("v%d", s.version) }

func (s *Store) read(prefix string) []*abi.StoreEntry {
	var entries []*abi.StoreEntry
	for key, value := range s.entries {
		if strings.HasPrefix(key, prefix) {
			entries = append(entries, &abi.StoreEntry{Key: key, Value: slices.Clone(value)})
		}
	}
	slices.SortFunc(entries, func(a, b *abi.StoreEntry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

// isKey reports whether the host accepts the key: the rule is that of ConfigMaps.
func isKey(key string) bool {
	return key != "" && len(key) <= 253 && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}
