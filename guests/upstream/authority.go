package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"time"
)

// authority is the CA of one instance, for TLS between a client and the proxy
// in the same memory. It protects nothing: clients insist on TLS.
type authority struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	pool   *x509.CertPool
	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

func (a *authority) make() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate("wasm-ccm guest")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key, a.pool, a.leaves = key, x509.NewCertPool(), map[string]*tls.Certificate{}
	a.pool.AddCert(a.cert)
	return nil
}

// clockError bounds the error of a machine's clock before it is set:
// certificates stay valid for the instance's life.
const clockError = 30 * 365 * 24 * time.Hour

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-clockError), NotAfter: time.Now().Add(clockError),
	}
}

// config serves under the client's server name, or else as host.
func (a *authority) config(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName != "" {
				return a.leaf(hello.ServerName)
			}
			return a.leaf(host)
		},
	}
}

func (a *authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf := a.leaves[host]; leaf != nil {
		return leaf, nil
	}
	template := certificate(host)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	a.leaves[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	return a.leaves[host], nil
}
