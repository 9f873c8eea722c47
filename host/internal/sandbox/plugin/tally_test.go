package plugin

import (
	"context"
	"errors"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func TestFailuresAreTheGuests(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ended for lack of room"))
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{t.Context(), nil, false},
		{t.Context(), errors.New("unreachable"), true},
		{t.Context(), context.DeadlineExceeded, true},
		{t.Context(), &abi.Error{Code: abi.CodeInternal}, true},
		{t.Context(), &abi.Error{Code: abi.CodeUnauthenticated}, false},
		{gone, context.Canceled, false},
	} {
		if got := isFailure(test.ctx, test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

func TestTally(t *testing.T) {
	g := &Generation{tally: newTally()}
	for n := range 2 * recentOps {
		var err error
		if n < recentOps {
			err = errors.New("unreachable")
		}
		g.tally.count(t.Context(), abi.OpRouteList, err)
	}
	if got := g.Tally(); got != (Tally{2 * recentOps, recentOps}) {
		t.Errorf("in all %+v", got)
	}
	if got := g.Recent(); got != (Tally{recentOps, 0}) {
		t.Errorf("lately %+v", got)
	}
	select {
	case <-g.Failed():
	default:
		t.Error("nobody was told")
	}
	if calls := g.Calls(abi.OpRouteList); calls != 2*recentOps || g.Calls(abi.OpRouteCreate) != 0 {
		t.Errorf("%d calls of the op", calls)
	}
	if g.LastFailure() == nil {
		t.Error("the last failure is not there")
	}
}
