package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
)

// Pulls durably records which image is about to be read from a registry.
type Pulls interface {
	// Begin returns once it is recorded that this manager is about to read the image of that digest
	// (sha256:HEX of the manifest). done says that it was read or refused. An error says why it must not
	// be read now.
	Begin(ctx context.Context, image string) (done func(), err error)
}

// ReasonPullHeld is the reason of an image that must not be read now.
const ReasonPullHeld = "ImagePullHeld"

// begin records the coming read of an image. An error is an *Error.
func (o *OCI) begin(ctx context.Context, image string) (done func(), err error) {
	if o.options.Pulls == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	done, err = o.options.Pulls.Begin(ctx, image)
	if err == nil {
		return done, nil
	}
	err = fmt.Errorf("%s@%s is not pulled: %w", o.origin().Origin, image, err)
	reason := ReasonPullHeld
	var known *Error
	if errors.As(err, &known) {
		reason = known.Reason
	}
	return nil, &Error{Reason: reason, Err: err}
}

// verify asks the policy about an image before its layer is fetched.
func (o *OCI) verify(image *registry.Image) error {
	if o.options.Policy == nil {
		return nil
	}
	policy, s := o.options.Policy(), signaturesOf(image)
	// Invariant I8 (host/SECURITY.md): the signature of an image is verified before its layer is opened.
	err := policy.CheckImage(&s, image.Artifact)
	if err != nil {
		o.refusing = policy
	}
	return err
}
