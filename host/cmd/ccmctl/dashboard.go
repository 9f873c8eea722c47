package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// dashboardFlags are the flags of dashboard.
type dashboardFlags struct {
	managerFlags
	port uint16
}

func newDashboard() *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the manager's status page in a browser of this machine",
		Long: "Serve the status page of the manager that leads on this machine, until Ctrl-C.\n" +
			"A browser has no token for the manager: ccmctl adds its own. The address has a\n" +
			"key that other users of this machine do not know.",
		Example: "  ccmctl dashboard\n" +
			"  ccmctl dashboard --port 8080",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f.add(cmd)
	cmd.Flags().Uint16Var(&f.port, "port", 0, "the port on 127.0.0.1; 0: one that is free")
	return cmd
}

func (f *dashboardFlags) run(ctx context.Context, w io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &dashboard{connection: &connection{connect: func() (*managerClient, error) { return f.connect(ctx, true) }}, key: rand.Text()}
	defer d.drop()
	if _, err := d.manager(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", f.port, err)
	}
	d.host = listener.Addr().String()
	server := &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		<-ctx.Done()
		_ = server.Close() // which Serve tells
	}()
	fmt.Fprintf(w, "http://%s/%s%s\n", d.host, d.key, v1alpha1.PagePath)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// dashboard passes the manager's pages on to a browser.
type dashboard struct {
	*connection
	// host and key are what an address must have. A page of another site can make a
	// browser send requests here, but it knows neither.
	host, key string
}

// ServeHTTP passes on GET of the manager's pages and its API, and nothing else.
func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, known := strings.CutPrefix(r.URL.Path, "/"+d.key)
	switch {
	case r.Host != d.host || !known || !strings.HasPrefix(path, v1alpha1.PathPrefix):
		http.NotFound(w, r)
	case r.Method != http.MethodGet:
		http.Error(w, "the status page is read-only", http.StatusMethodNotAllowed)
	default:
		d.pass(w, r, path)
	}
}

// policy holds beside that of the page (statusapi): whoever answers need not be the
// manager, and another answer, of the manager, has the same origin.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (d *dashboard) pass(w http.ResponseWriter, r *http.Request, path string) {
	got, err := d.fetch(r.Context(), path, r.URL.RawQuery)
	if err == nil && got.code == http.StatusOK {
		err = got.whole()
	}
	if err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the manager does not answer; load the page again: "+text.Line(err.Error(), v1alpha1.MaxText), http.StatusBadGateway)
		return
	}
	h := w.Header()
	h.Set("Content-Type", got.header.Get("Content-Type"))
	h["Content-Security-Policy"] = append(got.header.Values("Content-Security-Policy"), policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(got.code)
	_, _ = w.Write(got.body) // a browser that left needs nothing
}
