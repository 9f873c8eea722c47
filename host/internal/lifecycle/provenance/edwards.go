package provenance

import (
	"crypto/ed25519"
	"errors"
	"math/big"
	"slices"
)

// edwards is the curve of Ed25519, -x² + y² = 1 + dx²y², for checks of public keys: slow,
// and unsuitable for secrets.
type edwards struct {
	// p is the field's prime, order that of the subgroup of the keys.
	p, order, d *big.Int
}

func newEdwards() edwards {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	d := new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), p))
	return edwards{p, order, d.Mod(d, p)}
}

// edwardsPoint is a point in affine coordinates.
type edwardsPoint struct{ x, y *big.Int }

func (e edwards) identity() edwardsPoint { return edwardsPoint{big.NewInt(0), big.NewInt(1)} }

func (p edwardsPoint) equal(q edwardsPoint) bool { return p.x.Cmp(q.x) == 0 && p.y.Cmp(q.y) == 0 }

// check refuses keys for which others than the owner of the private key can make signatures,
// and non-canonical encodings. Every generated key is in the subgroup of prime order.
func (e edwards) check(public ed25519.PublicKey) error {
	point, ok := e.decode(public)
	switch {
	case !ok:
		return errors.New("it is an Ed25519 key that is no point of the curve, or is not in its canonical form: generate another")
	case point.equal(e.identity()), !e.multiply(point, e.order).equal(e.identity()):
		return errors.New("it is an Ed25519 key of small or mixed order, so others may be able to sign for it: generate another")
	}
	return nil
}

// decode reads y and the sign of x, strictly by RFC 8032, 5.1.3.
func (e edwards) decode(public []byte) (edwardsPoint, bool) {
	if len(public) != ed25519.PublicKeySize {
		return edwardsPoint{}, false
	}
	b := slices.Clone(public)
	slices.Reverse(b)
	negative := b[0]>>7 == 1
	b[0] &= 0x7f
	y := new(big.Int).SetBytes(b)
	square := new(big.Int).Mul(y, y)
	below := new(big.Int).Mul(e.d, square)
	below.ModInverse(below.Add(below, big.NewInt(1)), e.p) // -1/d is no square, so the inverse exists
	square.Mul(square.Sub(square, big.NewInt(1)), below)
	x := new(big.Int).ModSqrt(square.Mod(square, e.p), e.p)
	if y.Cmp(e.p) >= 0 || x == nil || negative && x.Sign() == 0 {
		return edwardsPoint{}, false
	}
	if (x.Bit(0) == 1) != negative {
		x.Sub(e.p, x)
	}
	return edwardsPoint{x.Mod(x, e.p), y}, true
}

// add is the curve's addition law, which is complete: it has no exceptions.
func (e edwards) add(a, b edwardsPoint) edwardsPoint {
	product := func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }
	t := product(product(a.x, b.x), product(a.y, b.y))
	t.Mod(t.Mul(t, e.d), e.p)
	quotient := func(above, below *big.Int) *big.Int {
		below.ModInverse(below.Mod(below, e.p), e.p)
		return above.Mod(above.Mul(above, below), e.p)
	}
	x := new(big.Int).Add(product(a.x, b.y), product(a.y, b.x))
	y := new(big.Int).Add(product(a.y, b.y), product(a.x, b.x))
	one := big.NewInt(1)
	return edwardsPoint{quotient(x, new(big.Int).Add(one, t)), quotient(y, new(big.Int).Sub(one, t))}
}

func (e edwards) multiply(p edwardsPoint, n *big.Int) edwardsPoint {
	out := e.identity()
	for i := n.BitLen() - 1; i >= 0; i-- {
		out = e.add(out, out)
		if n.Bit(i) == 1 {
			out = e.add(out, p)
		}
	}
	return out
}
