package hostfunc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// maxLogKey bounds a key, in bytes.
	maxLogKey = 64
	// guestKey is the prefix of a guest's key that would be one of the host's.
	guestKey = "guest."
)

// logKeys are the keys of one line. Text logs write keys without quotes, and JSON readers take the
// last of two fields with one name. So a key consists of letters, digits, "_", "-", "." and "/"
// (other characters become "_"), begins with a letter or "_", has at most 64 bytes, is none of the
// host's or the log format's, and is unique in its line; the last two ignoring case.
type logKeys map[string]bool

// next returns the key for a value.
func (k logKeys) next(key string) string {
	// Invariant M8 (host/SECURITY.md): no key ends its field, or is one of the host's.
	key = text.Cut(strings.Map(keyCharacter, key), maxLogKey)
	if key == "" || !isLetter(rune(key[0])) || reservedKey(key) {
		key = text.Cut(guestKey+key, maxLogKey)
	}
	unique := key
	for n := 2; k[strings.ToLower(unique)]; n++ {
		suffix := "." + strconv.Itoa(n)
		unique = text.Cut(key, maxLogKey-len(suffix)) + suffix
	}
	k[strings.ToLower(unique)] = true
	return unique
}

// reservedKey reports whether a key is the host's, or one of Kubernetes' text and JSON log
// formats or of log collectors. Collectors write the fields of an object as object.name.
func reservedKey(key string) bool {
	key, _, _ = strings.Cut(key, ".")
	return slices.ContainsFunc([]string{
		"provider", "module", "op", "generation", "signer", "kind", "object", "severity", "truncated", "stream", "dropped",
		"ts", "v", "msg", "err", "error", "logger", "caller", "level", "stacktrace", "time", "timestamp", "message", "log", "source",
	}, func(reserved string) bool { return strings.EqualFold(key, reserved) })
}

func keyCharacter(r rune) rune {
	if isLetter(r) || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '/' {
		return r
	}
	return '_'
}

func isLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
}
