package manager

import (
	"os"
	"os/signal"
	"syscall"
)

// onSignals calls first at the first SIGTERM or SIGINT of this process, and
// second at the next one. The library's handler exits at the second: modules on
// trial, or serving for seconds, would be suspected because of an impatient
// person. Stop ends it.
func onSignals(first, second func()) (stop func()) {
	heard := make(chan os.Signal, 2)
	signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, call := range []func(){first, second} {
			select {
			case <-heard:
				call()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(heard)
		close(done)
	}
}
