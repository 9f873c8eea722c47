package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// Store is a small durable map, one per provider name, shared by all instances
// and managers, for providers whose cloud has no API. Give values a version: a
// later version of the provider reads what this one wrote.
type Store struct{ op *Op }

// Store needs the capability store.
func (op *Op) Store() Store { return Store{op} }

// Change is the content of a write. A key must not be in both fields.
type Change struct {
	Put    []*abi.StoreEntry
	Delete []string
}

// Read returns the entries whose key has the prefix, sorted by key, and the
// version of the store.
func (s Store) Read(prefix string) (entries []*abi.StoreEntry, version string, err error) {
	var resp abi.StoreResponse
	if err := s.op.call(abi.CapabilityStore, importStore, &abi.StoreRequest{Prefix: prefix}, &resp); err != nil {
		return nil, "", err
	}
	if resp.Version == "" {
		return nil, "", Error(abi.CodeInternal, "store: the host's response has no version")
	}
	return resp.Entries, resp.Version, nil
}

// Write applies the change completely or not at all. The error has CodeConflict
// when the store is no longer at that version: read and decide again. It
// returns the new version.
func (s Store) Write(version string, change Change) (string, error) {
	var resp abi.StoreResponse
	req := abi.StoreRequest{Write: &abi.StoreWrite{Version: version, Put: change.Put, Delete: change.Delete}}
	if err := s.op.call(abi.CapabilityStore, importStore, &req, &resp); err != nil {
		return "", err
	}
	return resp.Version, nil
}

// maxTries bounds the calls of decide in Update. Conflicts come from other
// instances and another manager, and each means that one of them succeeded.
const maxTries = 16

// Update reads, calls decide for the change, and writes, again from the start
// on a conflict. It writes nothing for an empty change. An error of decide ends
// it. After 16 conflicts it gives up with CodeConflict.
func (s Store) Update(prefix string, decide func(entries []*abi.StoreEntry) (Change, error)) error {
	for try := 1; ; try++ {
		entries, version, err := s.Read(prefix)
		if err != nil {
			return err
		}
		change, err := decide(entries)
		if err != nil || len(change.Put)+len(change.Delete) == 0 {
			return err
		}
		if _, err = s.Write(version, change); err == nil {
			return nil
		}
		if CodeOf(err) != abi.CodeConflict || try == maxTries {
			return err
		}
	}
}
