package source

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	partsSuffix = ".parts"
	partSuffix  = ".part"
	maxParts    = 64
	// maxIndex bounds an index, in bytes; 64 parts with the longest names need
	// about 40 KiB.
	maxIndex = 64 << 10
	// maxProblemBytes bounds the quotation of an index in an error.
	maxProblemBytes = 200
)

// index lists the parts of a module.
type index struct {
	// Digest is the digest of all parts joined, sha256:HEX.
	Digest string `json:"digest"`
	Parts  []part `json:"parts"`
}

// part is a stored piece of a module.
type part struct {
	ConfigMap string `json:"configMap"`
	// Key is "" if the ConfigMap has only one.
	Key    string `json:"key,omitempty"`
	Digest string `json:"digest"`
}

// file is the part's name in a directory.
func (p part) file() string {
	if p.Key != "" {
		return p.Key
	}
	return p.ConfigMap
}

// String names the part for people.
func (p part) String() string {
	if p.Key != "" && p.Key != p.ConfigMap {
		return fmt.Sprintf("ConfigMap %s, key %s", p.ConfigMap, p.Key)
	}
	return "ConfigMap " + p.ConfigMap
}

// errNoPart is the error of a missing part.
var errNoPart = errors.New("it does not exist")

// decodeIndex accepts only a valid index.
func decodeIndex(key string, data []byte) (*index, error) {
	if len(data) > maxIndex {
		return nil, failed(ReasonModuleIndexInvalid, "%s is larger than %d bytes", key, maxIndex)
	}
	var x index
	strict, err := json.UnmarshalStrict(data, &x)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err == nil {
		err = x.validate()
	}
	if err != nil {
		return nil, failed(ReasonModuleIndexInvalid, "%s is not an index of a module: %s; let ccmctl write it", key, text.Line(err.Error(), maxProblemBytes))
	}
	return &x, nil
}

func (x *index) validate() error {
	if !isDigest(x.Digest) {
		return errors.New("digest must be sha256: and 64 hexadecimal digits in lower case")
	}
	if len(x.Parts) == 0 || len(x.Parts) > maxParts {
		return fmt.Errorf("it has %d parts, must have 1 to %d", len(x.Parts), maxParts)
	}
	for i, p := range x.Parts {
		if err := p.validate(); err != nil {
			return fmt.Errorf("parts[%d].%w", i, err)
		}
		if slices.ContainsFunc(x.Parts[:i], p.sameAs) {
			return fmt.Errorf("parts[%d] is there twice", i)
		}
	}
	return nil
}

func (p part) validate() error {
	if problems := validation.IsDNS1123Subdomain(p.ConfigMap); len(problems) > 0 {
		return fmt.Errorf("configMap: %s", problems[0])
	}
	if p.Key != "" {
		if problems := validation.IsConfigMapKey(p.Key); len(problems) > 0 {
			return fmt.Errorf("key: %s", problems[0])
		}
	}
	if !isDigest(p.Digest) {
		return errors.New("digest must be sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

func (p part) sameAs(other part) bool {
	return p.ConfigMap == other.ConfigMap && p.Key == other.Key
}

func isDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	sum, err := hex.DecodeString(digits)
	return ok && err == nil && len(sum) == 32 && digits == strings.ToLower(digits)
}

// configMaps returns the names of the parts' ConfigMaps, each once.
func (x *index) configMaps() []string {
	names := make([]string, 0, len(x.Parts))
	for _, p := range x.Parts {
		names = append(names, p.ConfigMap)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// without returns the names other than the parts'.
func (x *index) without(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.HasSuffix(name, partSuffix) || slices.ContainsFunc(x.Parts, func(p part) bool { return p.file() == name })
	})
}

// join reads the parts and returns them as one, if all digests match. The errors do not
// contain the actual digests: the author of an index need not have the right to read its
// parts.
func (x *index) join(read func(p part, most int64) ([]byte, error), limits Limits) ([]byte, error) {
	parts := make([][]byte, len(x.Parts))
	var total int64
	for i, p := range x.Parts {
		data, err := read(p, limits.MaxCompressed)
		where := fmt.Sprintf("part %d of %d (%s)", i+1, len(x.Parts), p)
		total += int64(len(data))
		switch {
		case err != nil:
			return nil, failed(ReasonModuleIncomplete, "%s: %w", where, err)
		case int64(len(data)) > limits.MaxCompressed:
			return nil, failed(ReasonModuleTooLarge, "%s is larger than %d bytes: make more and smaller parts of it", where, limits.MaxCompressed)
		case total > limits.MaxModule:
			return nil, failed(ReasonModuleTooLarge, "%s: the first %d parts have more than %d bytes: make the module smaller%s", where, i+1, limits.MaxModule, limits.orRaise())
		case digestOf(data) != p.Digest:
			return nil, failed(ReasonModuleIncomplete, "%s is not the one that the index is about, with the digest %s: apply the parts and then the index that were made together", where, p.Digest)
		}
		parts[i] = data
	}
	module := bytes.Join(parts, nil)
	// Invariant R4 (host/SECURITY.md): an incomplete module is never offered.
	if digestOf(module) != x.Digest {
		return nil, failed(ReasonModuleIncomplete, "every part fits its digest, but together they do not have the digest %s: are they in order, and is none left out?", x.Digest)
	}
	return module, nil
}
