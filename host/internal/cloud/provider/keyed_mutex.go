package provider

import (
	"context"
	"sync"
)

// keyedMutex is one mutex per key. A key that nobody holds or waits for takes
// no memory. The zero value is ready.
type keyedMutex struct {
	mu   sync.Mutex
	keys map[string]*keyLock
}

type keyLock struct {
	held  chan struct{} // holds one element while locked
	users int           // holder and waiters; guarded by keyedMutex.mu
}

// lock waits until the key is free or the context is done. After an error
// there is nothing to unlock.
func (m *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l := m.join(key)
	select {
	case l.held <- struct{}{}:
		return func() {
			<-l.held
			m.leave(key, l)
		}, nil
	case <-ctx.Done():
		m.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

func (m *keyedMutex) join(key string) *keyLock {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.keys[key]
	if !ok {
		if m.keys == nil {
			m.keys = map[string]*keyLock{}
		}
		l = &keyLock{held: make(chan struct{}, 1)}
		m.keys[key] = l
	}
	l.users++
	return l
}

func (m *keyedMutex) leave(key string, l *keyLock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(m.keys, key)
	}
}
