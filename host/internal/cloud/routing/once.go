package routing

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// saying is what was said of an object.
type saying struct {
	uid  types.UID
	what string
}

// once remembers what was said, up to a number of sayings.
type once struct {
	mu   sync.Mutex
	said *lru.Cache
}

func newOnce(size int) *once { return &once{said: lru.New(size)} }

// first reports whether it was not asked for the saying before.
func (o *once) first(uid types.UID, what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := saying{uid, what}
	if _, ok := o.said.Get(key); ok {
		return false
	}
	o.said.Add(key, nil)
	return true
}

// was reports whether first was asked for the saying before.
func (o *once) was(uid types.UID, what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.said.Get(saying{uid, what})
	return ok
}
