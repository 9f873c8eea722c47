package image

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// All of Mozilla's are there, but those whose limits a file cannot say.
func TestCertificates(t *testing.T) {
	text, err := Certificates()
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			want++
		}
	}
	var have [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA {
			t.Errorf("no authority: %v, %v", c, err)
		}
		have = append(have, block.Bytes)
	}
	if len(have) != want || want < 100 {
		t.Errorf("%d certificates, want %d", len(have), want)
	}
	for root := range bundle.Roots() {
		limited := root.Constraint != nil
		if found := slices.ContainsFunc(have, func(c []byte) bool { return string(c) == string(root.Certificate) }); found == limited {
			t.Errorf("a certificate is there: %t, it has limits: %t", found, limited)
		}
	}
}
