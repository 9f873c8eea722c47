package provenance_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// smallOrders are the y of the points whose order divides 8, below the prime and
// above it where 255 bits allow that.
func smallOrders(t *testing.T) (out []ed25519.PublicKey) {
	t.Helper()
	for _, text := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		y, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		negative := slices.Clone(y)
		negative[31] |= 0x80
		out = append(out, y, negative)
	}
	return out
}

// forge makes a signature with no private key at all: a point of small order
// plus a multiple of one is the identity for one message in eight.
func forge(public ed25519.PublicKey, points []ed25519.PublicKey) (module, signature []byte) {
	for i := range uint32(256) {
		module = binary.LittleEndian.AppendUint32([]byte("\x00asm"), i)
		for _, r := range points {
			signature = append(slices.Clone(r), make([]byte, 32)...)
			if ed25519.Verify(public, module, signature) {
				return module, signature
			}
		}
	}
	return nil, nil
}

// TestKeysOfSmallOrderAreRefused: anybody can sign for them.
func TestKeysOfSmallOrderAreRefused(t *testing.T) {
	points, forged := smallOrders(t), 0
	for _, public := range points {
		text := publicPEM(t, public)
		module, signature := forge(public, points)
		if module != nil {
			forged++
		}
		p, err := provenance.New(nil, []string{text})
		if err == nil {
			t.Errorf("the key %x is taken, and admits a forged module: %v", public, p.Check(module, []byte(base64Of(signature))) == nil)
		} else if !strings.Contains(err.Error(), "publicKeys[0]: it is an Ed25519 key") {
			t.Errorf("%x: %v", public, err)
		}
	}
	if forged < 8 {
		t.Errorf("%d keys have forged signatures", forged)
	}
}

// TestKeysOfMixedOrder have a part of small order, and no honest maker.
func TestKeysOfMixedOrder(t *testing.T) {
	honest := 0
	for i := range byte(8) {
		private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{i}, ed25519.SeedSize))
		public := private.Public().(ed25519.PublicKey)
		if _, err := provenance.New(nil, []string{publicPEM(t, public)}); err != nil {
			t.Errorf("a key of generate-key: %v", err)
			continue
		}
		honest++
		// (x, y) and the point of order 2, (0, -1), are (-x, -y).
		prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
		b := slices.Clone(public)
		slices.Reverse(b)
		sign := b[0] & 0x80
		b[0] &^= 0x80
		mixed := new(big.Int).Sub(prime, new(big.Int).SetBytes(b)).FillBytes(make([]byte, 32))
		mixed[0] |= sign ^ 0x80
		slices.Reverse(mixed)
		if _, err := provenance.New(nil, []string{publicPEM(t, ed25519.PublicKey(mixed))}); err == nil || !strings.Contains(err.Error(), "mixed order") {
			t.Errorf("the key %x of mixed order: %v", mixed, err)
		}
	}
	if honest != 8 {
		t.Errorf("%d honest keys are taken", honest)
	}
}

func TestKeysThatAreNoPoint(t *testing.T) {
	for y := byte(2); y < 20; y++ {
		public := make(ed25519.PublicKey, 32)
		public[0] = y
		_, err := provenance.New(nil, []string{publicPEM(t, public)})
		if err == nil {
			t.Errorf("y = %d is taken", y)
		}
	}
}

// TestWeakKeysOfOtherKinds are refused by name or by the parser.
func TestWeakKeysOfOtherKinds(t *testing.T) {
	modulus := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 2047), big.NewInt(12345))
	even := new(big.Int).Add(modulus, big.NewInt(1))
	for name, text := range map[string]string{
		"RSA, exponent 1":       publicPEM(t, &rsa.PublicKey{N: modulus, E: 1}),
		"RSA, exponent 2":       publicPEM(t, &rsa.PublicKey{N: modulus, E: 2}),
		"RSA, even exponent":    publicPEM(t, &rsa.PublicKey{N: modulus, E: 65536}),
		"RSA, even modulus":     publicPEM(t, &rsa.PublicKey{N: even, E: 65537}),
		"RSA, 2047 bits":        publicPEM(t, &rsa.PublicKey{N: new(big.Int).Rsh(modulus, 1), E: 65537}),
		"ECDSA, infinity":       ecdsaPEM(t, []byte{0}),
		"ECDSA, off the curve":  ecdsaPEM(t, append([]byte{4}, bytes.Repeat([]byte{7}, 64)...)),
		"ECDSA, zero":           ecdsaPEM(t, append([]byte{4}, make([]byte, 64)...)),
		"ECDSA, not reduced":    ecdsaPEM(t, notReduced()),
		"Ed25519, 31 bytes":     rawPEM(t, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}}, make([]byte, 31)),
		"Ed25519, 33 bytes":     rawPEM(t, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}}, make([]byte, 33)),
		"X25519, which is none": rawPEM(t, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 110}}, bytes.Repeat([]byte{9}, 32)),
	} {
		if _, err := provenance.New(nil, []string{text}); err == nil || !strings.Contains(err.Error(), "publicKeys[0]: it is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// notReduced is a point of P-256 with the prime added to its x where 256 bits
// allow that: x = 5 has a y.
func notReduced() []byte {
	curve := elliptic.P256().Params()
	for x := big.NewInt(0); ; x.Add(x, big.NewInt(1)) {
		square := new(big.Int).Exp(x, big.NewInt(3), curve.P)
		square.Sub(square, new(big.Int).Mul(x, big.NewInt(3)))
		y := new(big.Int).ModSqrt(square.Mod(square.Add(square, curve.B), curve.P), curve.P)
		if y != nil {
			point := append([]byte{4}, new(big.Int).Add(x, curve.P).FillBytes(make([]byte, 32))...)
			return append(point, y.FillBytes(make([]byte, 32))...)
		}
	}
}

func ecdsaPEM(t *testing.T, point []byte) string {
	t.Helper()
	curve, err := asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7})
	if err != nil {
		t.Fatal(err)
	}
	return rawPEM(t, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, Parameters: asn1.RawValue{FullBytes: curve}}, point)
}

func rawPEM(t *testing.T, algorithm pkix.AlgorithmIdentifier, key []byte) string {
	t.Helper()
	der, err := asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{algorithm, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		t.Logf("the parser takes %x", key)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
