package provenance

import (
	"bytes"
	"crypto/ed25519"
	"errors"

	"filippo.io/edwards25519"
)

// checkEd25519 refuses keys for which others than the owner of the private key can make signatures,
// and non-canonical encodings. Every generated key is in the subgroup of prime order.
func checkEd25519(public ed25519.PublicKey) error {
	point, err := new(edwards25519.Point).SetBytes(public)
	switch {
	case err != nil || !bytes.Equal(point.Bytes(), public):
		return errors.New("it is an Ed25519 key that is no point of the curve, or is not in its canonical form: generate another")
	case point.Equal(edwards25519.NewIdentityPoint()) == 1 || !ofPrimeOrder(point):
		return errors.New("it is an Ed25519 key of small or mixed order, so others may be able to sign for it: generate another")
	}
	return nil
}

// ofPrimeOrder reports whether order × p is the identity: (order - 1) × p is -p then. Scalars
// are taken modulo the order, so -1 is order - 1.
func ofPrimeOrder(p *edwards25519.Point) bool {
	one := make([]byte, 32)
	one[0] = 1
	scalar, err := new(edwards25519.Scalar).SetCanonicalBytes(one)
	if err != nil {
		return false // unreachable: 1 is a scalar
	}
	product := new(edwards25519.Point).ScalarMult(scalar.Negate(scalar), p)
	return product.Equal(new(edwards25519.Point).Negate(p)) == 1
}
