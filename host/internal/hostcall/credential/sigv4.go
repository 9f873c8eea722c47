package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

type sigV4 struct {
	redacted
	AWSSigV4
	holder holder
	secret keys
	signer *v4.Signer
}

func newSigV4(a AWSSigV4, h holder) *sigV4 {
	var k keys
	if a.SessionTokenKey == "" {
		a.SessionTokenKey = "session_token"
		k.optional = []string{a.SessionTokenKey}
	} else {
		k.required = []string{a.SessionTokenKey}
	}
	setDefault(&a.AccessKeyIDKey, "access_key_id")
	setDefault(&a.SecretAccessKeyKey, "secret_access_key")
	k.required = append(k.required, a.AccessKeyIDKey, a.SecretAccessKeyKey)
	signer := v4.NewSigner(func(o *v4.SignerOptions) {
		// Only S3 signs the path as it is sent.
		o.DisableURIPathEscaping = a.Service == "s3"
	})
	return &sigV4{AWSSigV4: a, holder: h, secret: k, signer: signer}
}

func (s *sigV4) keys() keys { return s.secret }

func (s *sigV4) apply(ctx context.Context, c *call) error {
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		c.req.Header.Del(name)
	}
	// The signer sorts the query in place, and the URL may be shared.
	u := *c.req.URL
	c.req.URL = &u
	sum := sha256.Sum256(c.body)
	hash := hex.EncodeToString(sum[:])
	if s.Service == "s3" {
		c.req.Header.Set("X-Amz-Content-Sha256", hash)
	}
	credentials := aws.Credentials{
		AccessKeyID: c.values[s.AccessKeyIDKey], SecretAccessKey: c.values[s.SecretAccessKeyKey],
		SessionToken: c.values[s.SessionTokenKey],
	}
	if err := s.signer.SignHTTP(ctx, credentials, c.req, hash, s.Service, s.Region, c.now); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return s.scrub(c.req.Header)
}

// scrub has the signature scrubbed: anyone can use it for minutes.
func (s *sigV4) scrub(h http.Header) error {
	_, signature, ok := strings.Cut(h.Get("Authorization"), "Signature=")
	if !ok {
		return fmt.Errorf("the signature is missing")
	}
	s.holder.holdOnce([]byte(signature))
	return nil
}

func (*sigV4) rejected(string) bool { return false }
