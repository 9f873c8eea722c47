package trials

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Pulls records images that are about to be read, as modules that are about to
// be loaded. It is a source.Pulls.
type Pulls struct{ book *Book }

// Pulls returns those of the provider itself.
func (b *Book) Pulls() Pulls { return Pulls{b} }

// pullRetry is the time between two looks at what another manager reads.
const pullRetry = 2 * time.Second

// Begin is source.Pulls'. It waits while another manager reads the image for the
// first time.
func (p Pulls) Begin(ctx context.Context, image string) (done func(), err error) {
	for {
		id, err := p.begin(ctx, image)
		var busy *trial.Busy
		switch {
		case err == nil:
			return func() { p.read(id) }, nil
		case !errors.As(err, &busy):
			return nil, p.explain(err, image)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting to read the image %s: %w", image, err)
		case <-p.book.clock.After(pullRetry):
		}
	}
}

func (p Pulls) begin(ctx context.Context, image string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	return p.book.begin(ctx, trial.Subject{Provider: p.book.provider, Image: image}, trial.Shared)
}

// read: the manager has survived it, whatever came of it.
func (p Pulls) read(id int64) {
	now := p.book.now()
	p.book.note(func(b *trial.Book) {
		b.Pass(p.book.manager, id, now)
		b.Strike(p.book.manager, id)
	})
}

func (p Pulls) explain(err error, image string) error {
	var suspect *trial.Suspect
	if errors.As(err, &suspect) {
		return fmt.Errorf("%w; offer another one, or, if it was not at fault: ccmctl rollout promote %s %s",
			suspect, p.book.provider, text.Digest(strings.TrimPrefix(image, "sha256:")))
	}
	return fmt.Errorf("no image is read before that is recorded: %w", err)
}
