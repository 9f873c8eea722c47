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
	// guestKey stands before what the host says itself.
	guestKey = "guest."
)

// logKeys are the keys of one line. Text logs write keys as they are, without
// quotes, and readers of JSON take the last of two fields with one name: so a
// key is made of letters, digits, "_", "-", "." and "/" (each other character
// becomes a "_") and begins with a letter or a "_"; it has at most 64 bytes; it is none that the host
// or the log's format uses, in whatever case; and no two of a line are the
// same, in whatever case.
type logKeys map[string]bool

// next returns the key under which a value is logged.
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

// reservedKey knows what the host says of each line, and what the text and the
// JSON format of Kubernetes' logs and those who collect them have of their own.
// Collectors write the fields of an object as object.name.
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
