package manager

import (
	"errors"
	"fmt"
	"time"
)

// notYet is the error of a valid configuration that may be applied later
// unchanged.
type notYet struct{ error }

// Unwrap returns the cause.
func (e notYet) Unwrap() error { return e.error }

func later(format string, args ...any) error { return notYet{fmt.Errorf(format, args...)} }

// errObjects is for a valid file that needs a restart.
var errObjects = errors.New("cloudProviders.enabled cannot change while the manager runs: restart it, or change it back")

// reloadRetry is the delay between attempts to apply an unchanged file whose
// requirements are not met yet.
const reloadRetry = 10 * time.Second
