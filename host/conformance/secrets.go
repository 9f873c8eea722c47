package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// maxSecretBytes bounds one value of a Secret, as in the API server.
const maxSecretBytes = 1 << 20

// Secrets are the values of Kubernetes Secrets by their keys. It implements
// credential.Secrets, and must not be changed while in use.
type Secrets map[types.NamespacedName]map[string][]byte

// ReadSecrets reads Secrets from files NAMESPACE/NAME/KEY. It skips names that
// begin with a dot.
func ReadSecrets(dir fs.FS) (Secrets, error) {
	secrets := Secrets{}
	if _, err := fs.Stat(dir, "."); err != nil {
		return nil, err
	}
	files, err := fs.Glob(dir, "[^.]*/[^.]*/[^.]*")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		value, err := readValue(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parent, key := path.Split(name)
		namespace, secret, _ := strings.Cut(path.Clean(parent), "/")
		id := types.NamespacedName{Namespace: namespace, Name: secret}
		if secrets[id] == nil {
			secrets[id] = map[string][]byte{}
		}
		secrets[id][key] = value
	}
	return secrets, nil
}

func readValue(dir fs.FS, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err == nil && len(value) > maxSecretBytes {
		err = errors.New("it has more than 1 MiB")
	}
	return value, err
}

// Get implements credential.Secrets.
func (s Secrets) Get(_ context.Context, namespace, name string) (map[string][]byte, string, error) {
	data, ok := s[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, "", fmt.Errorf("the Secret %s/%s is not there; write its values into files %s/%s/KEY of the directory of secrets", namespace, name, namespace, name)
	}
	return data, "1", nil
}

// spoiled returns Secrets that every cloud refuses.
func (s Secrets) spoiled(credentials []v1alpha1.Credential) Secrets {
	secret := s.secretKeys(credentials)
	out := Secrets{}
	for id, data := range s {
		out[id] = map[string][]byte{}
		for key, value := range data {
			if secret(id, key) {
				value = []byte("wrong-" + strings.Repeat("x", max(8, len(value)-6)))
			}
			out[id][key] = value
		}
	}
	return out
}

// secretKeys returns the keys with secret values: those with a telling name,
// or, in a Secret without one, all keys that the credentials do not declare
// public.
func (s Secrets) secretKeys(credentials []v1alpha1.Credential) func(types.NamespacedName, string) bool {
	public := publicKeys(credentials)
	named := map[types.NamespacedName]bool{}
	for id, data := range s {
		for key := range data {
			named[id] = named[id] || saysSecret(key)
		}
	}
	return func(id types.NamespacedName, key string) bool {
		return saysSecret(key) || !named[id] && !public[id][key]
	}
}

func saysSecret(key string) bool {
	key = strings.ToLower(key)
	if strings.HasSuffix(key, "id") {
		return false
	}
	return strings.Contains(key, "pass") || strings.Contains(key, "secret") || strings.Contains(key, "token") || strings.HasSuffix(key, "key")
}

func publicKeys(credentials []v1alpha1.Credential) map[types.NamespacedName]map[string]bool {
	public := map[types.NamespacedName]map[string]bool{}
	for _, c := range credentials {
		id := types.NamespacedName(c.Secret)
		if public[id] == nil {
			public[id] = map[string]bool{}
		}
		for _, key := range c.PublicKeys {
			public[id][key] = true
		}
	}
	return public
}

// minSecretBytes is the length of the shortest value in the search: shorter
// ones occur everywhere.
const minSecretBytes = 6

// values are the values that no text may contain.
func (s Secrets) values(credentials []v1alpha1.Credential) (all []string) {
	secret := s.secretKeys(credentials)
	for id, data := range s {
		for key, value := range data {
			text := strings.TrimRight(string(value), "\n")
			if len(text) >= minSecretBytes && secret(id, key) && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}
