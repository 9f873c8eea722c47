package async_test

import (
	"flag"
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.InitFlags(nil)
	flag.Parse()
	if !testing.Verbose() {
		klog.LogToStderr(false)
		klog.SetOutput(nothing{})
	}
	// They keep the time of the last error in a global, and sleep for what is
	// decades in a bubble whose clock begins in 2000.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
