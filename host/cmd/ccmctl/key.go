package main

import (
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// passwordVariable is cosign's variable for the password.
const passwordVariable = "COSIGN_PASSWORD"

// newPassword is the password for a new key, nil for none.
func newPassword(bool) ([]byte, error) {
	if password := os.Getenv(passwordVariable); password != "" {
		return []byte(password), nil
	}
	return nil, nil
}

// readPassword is the password of an encrypted key. It may be empty, as cosign
// allows.
func readPassword(bool) ([]byte, error) {
	password, ok := os.LookupEnv(passwordVariable)
	if !ok {
		return nil, errors.New("the key is encrypted: set " + passwordVariable)
	}
	return []byte(password), nil
}

// readPrivateKey accepts PKCS8, SEC 1, PKCS1 and cosign's encrypted keys. Its
// errors do not quote the file.
func readPrivateKey(path string) (crypto.PrivateKey, error) {
	data, err := readFile(path, maxSmall)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, fmt.Errorf("%s is not a private key in PEM: make one with ccmctl generate-key-pair", path)
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(data, readPassword)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (an encrypted key needs its password in %s)", path, err, passwordVariable)
	}
	return key, nil
}
