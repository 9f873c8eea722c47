package manager

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// lifetime is when something works and lives.
type lifetime struct {
	// work is the context of parts that start others, and ends with stop; life
	// that of the parts that outlive them, and ends with die.
	work, life context.Context
	stop, die  context.CancelFunc
	// working are the tasks that end with work, and living those that end with life.
	working, living tasks.Group
}

func newLifetime(work, life context.Context) *lifetime {
	l := &lifetime{}
	l.work, l.stop = context.WithCancel(work)
	l.life, l.die = context.WithCancel(life)
	return l
}
