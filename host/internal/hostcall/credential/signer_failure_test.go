package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// TestSignersAreNoOracle: a signer that repeats what the provider wrote tells it
// the same whether that is a secret or not.
func TestSignersAreNoOracle(t *testing.T) {
	signer := signerFunc(func(_ context.Context, r *abi.SignRequest) (*abi.SignResponse, error) {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprint("cannot sign ", r.Request.Url, " ",
			fmt.Sprint(headerValues(r)), " ", string(r.Request.Body), " for ", r.Scope)}
	})
	const guess = "gue551"
	for name, send := range map[string]func(*Set) error{
		"URL":   func(s *Set) error { _, err := trySend(t, s, "", "GET", "http://127.0.0.1:1/"+guess, ""); return err },
		"scope": func(s *Set) error { _, err := trySend(t, s, guess, "GET", "http://127.0.0.1:1/", ""); return err },
		"body":  func(s *Set) error { _, err := trySend(t, s, "", "POST", "http://127.0.0.1:1/", guess); return err },
		"header": func(s *Set) error {
			_, err := trySend(t, s, "", "GET", "http://127.0.0.1:1/", "", "X-A", guess)
			return err
		},
	} {
		right, _ := newTestSet(t, newFakeSecrets("key", guess), Spec{Signer: &SignerSpec{Signer: signer}})
		wrong, _ := newTestSet(t, newFakeSecrets("key", "another"), Spec{Signer: &SignerSpec{Signer: signer}})
		if told, other := send(right), send(wrong); fmt.Sprint(told) != fmt.Sprint(other) {
			t.Errorf("%s: who guesses right is told %v, who guesses wrong %v", name, told, other)
		}
	}
}

func headerValues(r *abi.SignRequest) (out []string) {
	for _, h := range r.Request.Headers {
		out = append(out, h.Value)
	}
	return out
}

// TestQueriesTellNoLength: whether a query fits does not say how long the secret
// in it is.
func TestQueriesTellNoLength(t *testing.T) {
	for _, secret := range []string{"four", strings.Repeat("x", 4<<10)} {
		set, _ := newTestSet(t, newFakeSecrets("key", secret), Spec{Query: &Query{Param: "key", Key: "key"}})
		for size := range 9 {
			req := newRequest(t, "http://127.0.0.1:1/?a="+strings.Repeat("y", size<<10))
			if err := apply(t.Context(), set, "cloud", "", req); err != nil {
				t.Errorf("%d KiB beside a secret of %d bytes: %v", size, len(secret), err)
			}
		}
	}
}

func TestSignerFailures(t *testing.T) {
	tests := map[string]struct {
		err  error
		code abi.Code
	}{
		"its own answer": {&abi.Error{Code: abi.CodeUnauthenticated, Message: "wrong password hunter2hunter3 (aHVudGVyMmh1bnRlcjM=)"}, abi.CodeUnauthenticated},
		"a trap":         {errors.New("unreachable executed,\nmemory: hunter2hunter3 " + strings.Repeat("x", 10000)), abi.CodeInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			signer := signerFunc(func(context.Context, *abi.SignRequest) (*abi.SignResponse, error) { return nil, test.err })
			set, _ := newTestSet(t, newFakeSecrets("key", "hunter2hunter3"), Spec{Signer: &SignerSpec{Signer: signer}})
			var told string
			set.signerFailed = func(name, message string) { told = name + ": " + message }
			_, err := trySend(t, set, "", "GET", "http://127.0.0.1:1/", "")
			refused(t, err, test.code, "credential cloud: the signer: its message is in the manager's log")
			if !strings.HasPrefix(told, "cloud: ") || !strings.Contains(told, "[scrubbed:cloud]") || len(told) > 2*maxSignerMessageBytes || strings.Contains(told, "\n") {
				t.Errorf("%d bytes: %.200q", len(told), told)
			}
			if all := told + err.Error(); strings.Contains(all, "hunter2") || strings.Contains(all, "aHVudGVy") {
				t.Errorf("%q, %q", told, err)
			}
		})
	}
}
