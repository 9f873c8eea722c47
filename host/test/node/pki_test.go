//go:build node

package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority is the cluster's: for servers, clients and the front proxy. Files
// have the name of their owner.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir, key: newKey(t)}
	var err error
	if a.cert, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "cluster"}, a.key); err != nil {
		t.Fatal(err)
	}
	a.write(t, "ca", a.key, a.cert.Raw)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) crt(name string) string { return filepath.Join(a.dir, name+".crt") }
func (a *authority) pem(name string) string { return filepath.Join(a.dir, name+".key") }

func (a *authority) write(t *testing.T, name string, key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyutil.WriteKey(a.pem(name), private); err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	public, err := cert.EncodeCertificates(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.WriteCert(a.crt(name), public); err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate for a client, or for the server at addresses.
func (a *authority) issue(t *testing.T, name string, subject pkix.Name, addresses ...string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name, key, der)
}

// kubeconfig makes a client's certificate and the file with which it connects.
func (a *authority) kubeconfig(t *testing.T, name, user string, groups ...string) string {
	t.Helper()
	a.issue(t, name, pkix.Name{CommonName: user, Organization: groups})
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: "https://" + bridgeAddress + ":6443", CertificateAuthority: a.crt("ca")}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: a.crt(name), ClientKey: a.pem(name)}
	config.Contexts["cluster"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: name}
	config.CurrentContext = "cluster"
	path := filepath.Join(a.dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
