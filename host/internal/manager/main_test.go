package manager

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestMain sets the process's globals before any goroutine reads them: the
// error handlers, one of which would delay every caller after an error, outside
// of the bubbles' time; and the log, which is only for repeating a walk.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	if os.Getenv("WALK_SEED") == "" {
		klog.SetLogger(logr.Discard())
	}
	os.Exit(m.Run())
}
