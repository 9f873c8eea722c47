// Command demo shows the manager's main job (make run): it starts a control
// plane on loopback, or takes the cluster of $KUBECONFIG, lets the real manager
// run with a real guest from a ConfigMap, and shows how Nodes, a Service and a
// PersistentVolume become ready, and how the guest is replaced meanwhile.
//
// It may import host/test/devcluster and abi.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the flags and the environment.
type options struct {
	// build is where make puts its results, dir where the show puts its own.
	build, dir string
	// kubeconfig is of an existing cluster; empty starts one.
	kubeconfig string
	// once ends the program after the show.
	once bool
}

func main() {
	o := options{kubeconfig: os.Getenv("KUBECONFIG"), once: os.Getenv("ONCE") != "" && os.Getenv("ONCE") != "0"}
	// A set of its own: controller-runtime has flags in the global one.
	flags := flag.NewFlagSet("demo", flag.ExitOnError)
	flags.StringVar(&o.build, "build", "build", "directory of the manager, the guests and bin/")
	flags.BoolVar(&o.once, "once", o.once, "exit after the show (or ONCE=1)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "an existing cluster instead of a new one (or KUBECONFIG=...)")
	_ = flags.Parse(os.Args[1:]) // exits by itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(130)
	default:
		fmt.Fprintf(os.Stderr, "\nthe show failed: %v\n", err)
		os.Exit(1)
	}
}

// run gives the show and takes everything down again.
func run(ctx context.Context, o options) (err error) {
	if o.dir, err = filepath.Abs(filepath.Join(o.build, "demo")); err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	s := newShow(os.Stdout)
	st, err := newStage(ctx, o, s)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, st.close())
		s.note("everything is taken down")
	}()
	if err := st.perform(ctx); err != nil {
		if ctx.Err() != nil || st.manager.cmd == nil {
			return err
		}
		s.note("last lines of %s:\n%s", st.manager.logPath(), st.manager.tail())
		return err
	}
	if o.once {
		return nil
	}
	st.invite()
	return st.manager.waitOr(ctx)
}

// perform is the show, step by step.
func (st *stage) perform(ctx context.Context) error {
	steps := []func(context.Context) error{
		st.offerModule, st.startManager, st.registerNodes, st.createService,
		st.createVolume, st.awaitRoutes, st.replaceModule, st.rollBack,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	st.show.note("every step happened")
	return nil
}
