package manager

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestMain sets what the whole process has one of, before any goroutine reads
// it: the error handlers, of which one has everybody wait after an error, with
// the time of no bubble; and the log, which is read for a walk that is repeated.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	if os.Getenv("WALK_SEED") == "" {
		klog.SetLogger(logr.Discard())
	}
	os.Exit(m.Run())
}
