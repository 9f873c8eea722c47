package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// makeKey writes a private key and sets a variable to the public one, in PEM
// with \n for each end of a line, as text in double quotes of YAML.
func makeKey(ts *testscript.TestScript, file, variable string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(file), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	ts.Setenv(variable, strings.ReplaceAll(text, "\n", `\n`))
}

// sign does what cosign sign-blob --key does: base64 of an ECDSA signature of
// the SHA-256 of the file.
func sign(ts *testscript.TestScript, keyFile, file, out string) {
	block, _ := pem.Decode(read(ts, keyFile))
	usage(ts, block != nil, "module sign KEY FILE OUT, with a KEY of module key")
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	ts.Check(err)
	key, ok := parsed.(*ecdsa.PrivateKey)
	usage(ts, ok, "module sign KEY FILE OUT, with a KEY of module key")
	sum := sha256.Sum256(read(ts, file))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(out), []byte(base64.StdEncoding.EncodeToString(signature)), 0o600))
}

// split writes the parts of a module, NAME-0 and so on, and NAME.parts, the
// index that names ConfigMaps of the same names.
func split(ts *testscript.TestScript, count, file, name string) {
	n, err := strconv.Atoi(count)
	ts.Check(err)
	data := read(ts, file)
	type part struct {
		ConfigMap string `json:"configMap"`
		Digest    string `json:"digest"`
	}
	var index struct {
		Digest string `json:"digest"`
		Parts  []part `json:"parts"`
	}
	index.Digest = digest(data)
	for i := range n {
		piece := data[i*len(data)/n : (i+1)*len(data)/n]
		configMap := fmt.Sprintf("%s-%d", name, i)
		index.Parts = append(index.Parts, part{configMap, digest(piece)})
		ts.Check(os.WriteFile(ts.MkAbs(configMap), piece, 0o600))
	}
	encoded, err := json.Marshal(index)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(name+".parts"), encoded, 0o600))
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
