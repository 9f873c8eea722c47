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
		_ = server.Close() // reported by Serve
	}()
	fmt.Fprintf(w, "http://%s/%s%s\n", d.host, d.key, v1alpha1.PagePath)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// dashboard forwards a browser's requests to the manager.
type dashboard struct {
	*connection
	// host and key are required in an address. Another site's page can make a
	// browser send requests here, but knows neither.
	host, key string
}

// ServeHTTP forwards only GET of the manager's pages and its API.
func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, known := strings.CutPrefix(r.URL.Path, "/"+d.key)
	switch {
	case r.Host != d.host || !known || !passed(path):
		http.NotFound(w, r)
	case r.Method != http.MethodGet:
		http.Error(w, "the status page is read-only", http.StatusMethodNotAllowed)
	default:
		d.pass(w, r, path)
	}
}

// passed reports whether a decoded path is forwarded: only one that every
// reader takes for the same path. ccmctl's token may open more than the pages,
// such as /metrics by way of "..", or a query that is none here.
func passed(path string) bool {
	below, ok := strings.CutPrefix(path, v1alpha1.PathPrefix)
	return ok && !strings.ContainsFunc(below, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '/' && r != '-'
	})
}

// policy is added to that of the page (statusapi): the server need not be the
// manager, and the manager's other answers share the origin.
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
	_, _ = w.Write(got.body) // the browser may be gone
}
