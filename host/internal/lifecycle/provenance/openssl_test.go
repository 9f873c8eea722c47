package provenance_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// openssl is another implementation of what cosign does with keys.
func openssl(t testing.TB, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl %v: %v; install openssl", args, err)
	}
	return out
}

// opensslKey makes a key and returns the file of the private and the text of
// the public one.
func opensslKey(t testing.TB, genpkey ...string) (file, public string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	openssl(t, append([]string{"genpkey", "-quiet", "-out", file}, genpkey...)...)
	return file, string(openssl(t, "pkey", "-in", file, "-pubout"))
}

// opensslSign returns a signature as cosign sign-blob writes it.
func opensslSign(t testing.TB, key, hash string, module []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	var raw []byte
	if hash == "" {
		raw = openssl(t, "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", file)
	} else {
		raw = openssl(t, "dgst", "-"+hash, "-sign", key, file)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw) + "\n")
}

func TestSignaturesOfOpenSSLAreAccepted(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00 a module")
	ec := func(curve string) []string {
		return []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:" + curve}
	}
	rsa := func(bits string) []string {
		return []string{"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:" + bits}
	}
	tests := map[string]struct {
		genpkey []string
		hashes  []string // in which the signature is accepted
		refused []string
	}{
		"P-256":    {genpkey: ec("P-256"), hashes: []string{"sha256"}, refused: []string{"sha512", "sha1"}},
		"P-384":    {genpkey: ec("P-384"), hashes: []string{"sha256", "sha384"}, refused: []string{"sha1"}},
		"P-521":    {genpkey: ec("P-521"), hashes: []string{"sha256", "sha512"}, refused: []string{"sha1"}},
		"RSA 2048": {genpkey: rsa("2048"), hashes: []string{"sha256"}, refused: []string{"sha512", "sha1"}},
		"RSA 2056": {genpkey: rsa("2056"), hashes: []string{"sha256"}},
		"Ed25519":  {genpkey: []string{"-algorithm", "ED25519"}, hashes: []string{""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			key, public := opensslKey(t, test.genpkey...)
			other, _ := opensslKey(t, test.genpkey...)
			_, unused := opensslKey(t, ec("P-256")...)
			policy := newPolicy(t, nil, unused, public)
			for _, hash := range test.hashes {
				signature := opensslSign(t, key, hash, module)
				wantAllowed(t, policy, module, signature)
				wantRefused(t, policy, append(module[:len(module):len(module)], 'x'), signature, provenance.ReasonSignatureInvalid)
				wantRefused(t, policy, module, opensslSign(t, other, hash, module), provenance.ReasonSignatureInvalid)
			}
			for _, hash := range test.refused {
				wantRefused(t, policy, module, opensslSign(t, key, hash, module), provenance.ReasonSignatureInvalid)
			}
		})
	}
}
