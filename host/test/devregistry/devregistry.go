// Package devregistry starts a real registry, distribution's, for tests, on
// loopback or the network of a test: open or with passwords, plain or with TLS. It can be stopped and
// started again at the same address, with what it holds.
package devregistry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Options of a registry.
type Options struct {
	// AssetsDir holds the binary registry (make registry). Empty takes
	// $KUBEBUILDER_ASSETS.
	AssetsDir string
	// Dir takes all that the registry holds. It must exist.
	Dir string
	// Host is the IP address that it listens at. Empty is 127.0.0.1.
	Host string
	// User and Password are asked for, unless empty.
	User, Password string
	// TLS has it serve with a certificate of its own.
	TLS bool
}

// Registry is one that was started. It is for one goroutine.
type Registry struct {
	options Options
	// Address is HOST:PORT.
	Address string
	// CABundle verifies it, in PEM; "" without TLS.
	CABundle string
	process  *exec.Cmd
	ended    chan struct{}
}

// startTimeout bounds the start.
const startTimeout = 30 * time.Second

// Start starts a registry.
func Start(o Options) (*Registry, error) {
	if o.AssetsDir == "" {
		o.AssetsDir = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(o.Host, "0"))
	if err != nil {
		return nil, err
	}
	r := &Registry{options: o, Address: listener.Addr().String()}
	if err := errors.Join(listener.Close(), r.configure()); err != nil {
		return nil, err
	}
	return r, r.Resume()
}

func (r *Registry) file(name string) string { return filepath.Join(r.options.Dir, name) }

func (r *Registry) configure() error {
	config := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage:\n  filesystem: {rootdirectory: %q}\n  delete: {enabled: true}\nhttp:\n  addr: %q\n", r.file("data"), r.Address)
	if r.options.TLS {
		if err := r.certify(); err != nil {
			return err
		}
		config += fmt.Sprintf("  tls: {certificate: %q, key: %q}\n", r.file("tls.crt"), r.file("tls.key"))
	}
	if r.options.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(r.options.Password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.file("htpasswd"), []byte(r.options.User+":"+string(hash)+"\n"), 0o600); err != nil {
			return err
		}
		config += fmt.Sprintf("auth:\n  htpasswd: {realm: test, path: %q}\n", r.file("htpasswd"))
	}
	return os.WriteFile(r.file("config.yml"), []byte(config), 0o600)
}

// certify makes a certificate for the host that is its own authority.
func (r *Registry) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, IPAddresses: []net.IP{net.ParseIP(r.options.Host)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	r.CABundle = string(certificate)
	return errors.Join(os.WriteFile(r.file("tls.crt"), certificate, 0o600),
		os.WriteFile(r.file("tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// Resume starts the registry again, with what it holds.
func (r *Registry) Resume() error {
	binary := filepath.Join(r.options.AssetsDir, "registry")
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w: run make registry", err)
	}
	log, err := os.OpenFile(r.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	r.process = exec.CommandContext(context.Background(), binary, "serve", r.file("config.yml"))
	r.process.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	r.ended = ended
	go func(p *exec.Cmd) {
		defer close(ended)
		_ = p.Wait() // killed
	}(r.process)
	if err := r.wait(); err != nil {
		return errors.Join(err, r.Stop())
	}
	return nil
}

// wait returns when the registry answers.
func (r *Registry) wait() error {
	scheme, transport := "http", &http.Transport{}
	if r.options.TLS {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(r.CABundle))
		scheme, transport.TLSClientConfig = "https", &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+r.Address+"/v2/", nil)
		if err != nil {
			return err
		}
		if response, err := transport.RoundTrip(request); err == nil {
			return response.Body.Close()
		}
		select {
		case <-r.ended:
			data, _ := os.ReadFile(r.file("log"))
			return fmt.Errorf("the registry has ended:\n%s", data)
		case <-ctx.Done():
			return errors.New("the registry does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the registry.
func (r *Registry) Stop() error {
	if r.process == nil {
		return nil
	}
	err := r.process.Process.Kill()
	<-r.ended
	r.process = nil
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
