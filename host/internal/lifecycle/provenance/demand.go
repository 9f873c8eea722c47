package provenance

import (
	"errors"
	"fmt"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxDemand bounds a repository and a version, in bytes.
const maxDemand = 256

// Demand returns a policy with further demands on what a key has signed, unless "": the
// signature must be of an image in a repository, HOST/PATH, and the module's manifest must
// have at least a semantic version.
func (p *Policy) Demand(repository, minimum string) (*Policy, error) {
	demanding := *p
	var err error
	if repository != "" {
		demanding.repository, err = parseRepository(repository)
	}
	if minimum != "" {
		var wrong error
		demanding.minimum, wrong = parseVersion(minimum)
		err = errors.Join(err, wrong)
	}
	return &demanding, err
}

// CheckRepository checks the repository of a Demand.
func CheckRepository(repository string) error {
	_, err := parseRepository(repository)
	return err
}

// CheckMinimum checks the version of a Demand.
func CheckMinimum(minimum string) error {
	_, err := parseVersion(minimum)
	return err
}

func parseRepository(s string) (*name.Repository, error) {
	if len(s) <= maxDemand && path.Clean(s) == s { // no URL, and no path that leaves the repository
		if r, err := name.NewRepository(s, name.StrictValidation); err == nil && r.Name() == s {
			return &r, nil
		}
	}
	return nil, errors.New("it must be HOST/PATH, without a tag and a digest, for example registry.example.com/providers/mycloud")
}

func parseVersion(s string) (*version.Version, error) {
	if len(s) <= maxDemand {
		if v, err := version.ParseSemantic(s); err == nil {
			return v, nil
		}
	}
	return nil, errors.New("it must be a semantic version, for example 1.4.0")
}

// checkVersion requires that the module's manifest, which its signature covers, has at least
// the demanded version.
func (p *Policy) checkVersion(module []byte) error {
	// Invariant R17 (host/SECURITY.md): a signature does not stay valid for ever.
	if p.minimum == nil {
		return nil
	}
	section, _, err := manifest.Section(module)
	if err != nil {
		return err
	}
	m, err := manifest.Parse(section)
	if err != nil {
		return err
	}
	if v, err := parseVersion(m.Version); err != nil || !v.AtLeast(p.minimum) {
		return fmt.Errorf("its manifest has the version %q", m.Version)
	}
	return nil
}

// claim is a signature's statement about an image.
type claim struct{ identity, digest string }

// checkClaims requires a claim about the image, in the demanded repository.
func (p *Policy) checkClaims(claims []claim, image string) error {
	err := fmt.Errorf("it is a signature of another image, not of %s", image)
	for _, c := range claims {
		switch {
		case c.digest != image:
		case p.repository == nil || isIn(c.identity, *p.repository):
			return nil
		default:
			err = fmt.Errorf("it is of an image in %s, but %s is required (provenance.repository)", text.Quote(c.identity), p.repository)
		}
	}
	return err
}

// isIn reports whether an identity, as cosign signs it, is in a repository. Its tag is
// ignored.
func isIn(identity string, repository name.Repository) bool {
	ref, err := name.ParseReference(identity)
	return err == nil && ref.Context().Name() == repository.Name()
}
