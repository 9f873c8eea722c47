package status

import "testing"

// FuzzRecord: a record that somebody has edited does no more than not to fit.
func FuzzRecord(f *testing.F) {
	f.Add(`{"good":{"revision":"r"},"bundle":{"set":"a","parts":["x"],"module":{"bytes":3,"digest":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},"config":{"bytes":0,"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"revision":"r"}}`, []byte("abc"))
	f.Add(`{"saved":[{"revision":"r"}],"bundles":[{"set":"c","parts":["x"],"module":{"bytes":3,"digest":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},"revision":"r"}]}`, []byte("abc"))
	f.Add(`{"saved":[{"revision":"r"}],"bundles":[null]}`, []byte{})
	f.Add(`{"refused":[{"revision":"r","since":"2026-11-21T15:04:05Z"}],"paused":true}`, []byte{})
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		s, err := decodeRecord(text)
		if err != nil {
			return
		}
		for _, x := range s.Bundles {
			b, err := x.split(content)
			if err == nil && (digest(b.Module) != x.Module.Digest || len(b.Module)+len(b.Config)+len(b.Signature) != len(content)) {
				t.Errorf("a bundle of other content: %+v", x)
			}
		}
	})
}
