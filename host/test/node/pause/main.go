// Command pause is the container that holds a pod's namespaces: it sleeps until
// it is told to end. It imports nothing of this project.
package main

import (
	"context"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
}
