package trials

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// attempt is a rollout.Trial.
type attempt struct {
	book *Book
	id   int64
}

// Reached is rollout.Trial's.
func (a *attempt) Reached(p rollout.Phase) {
	a.book.note(func(b *trial.Book) { b.Reach(a.book.manager, a.id, string(p)) })
}

// Kept is rollout.Trial's.
func (a *attempt) Kept() {
	now := a.book.now()
	a.book.note(func(b *trial.Book) { b.Pass(a.book.manager, a.id, now) })
}

// Ended is rollout.Trial's.
func (a *attempt) Ended() {
	a.book.note(func(b *trial.Book) { b.Strike(a.book.manager, a.id) })
}
