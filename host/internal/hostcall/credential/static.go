package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// header is for the types header and bearer.
type header struct {
	Header
	holder holder
}

func (h header) keys() keys { return keys{required: []string{h.Key}} }

func (h header) apply(_ context.Context, c *call) error {
	return setHeader(c.req, h.Name, h.Prefix+c.values[h.Key])
}

func (header) rejected(string) bool { return false }

type basic struct {
	Basic
	holder holder
}

func newBasic(b Basic, h holder) basic {
	setDefault(&b.UsernameKey, "username")
	setDefault(&b.PasswordKey, "password")
	return basic{b, h}
}

func (b basic) keys() keys {
	return keys{required: []string{b.UsernameKey, b.PasswordKey}, public: []string{b.UsernameKey}}
}

func (b basic) apply(_ context.Context, c *call) error {
	username := c.values[b.UsernameKey]
	if strings.Contains(username, ":") {
		return errors.New("the name of the user must not hold a colon (RFC 7617)")
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(username + ":" + c.values[b.PasswordKey]))
	b.holder.hold("header", []byte(encoded))
	return setHeader(c.req, "Authorization", "Basic "+encoded)
}

func (basic) rejected(string) bool { return false }

type query struct{ Query }

func (q query) keys() keys { return keys{required: []string{q.Key}} }

func (q query) apply(_ context.Context, c *call) error {
	dropParam(c.req, q.Param)
	return addParams(c.req, []*abi.HttpHeader{{Name: q.Param, Value: c.values[q.Key]}})
}

func (query) rejected(string) bool { return false }
