package shadow

import (
	"net/url"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of texts, in bytes.
const (
	maxObjectText = 128
	maxFieldText  = 160
	maxKeyText    = 64
	maxValueText  = 80
	maxErrorText  = 160
	maxReasonText = 512
	maxReportText = 1000 // that of a Kubernetes Event is 1024
)

// place is a URL without what may hold a secret: user, query and fragment.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "a URL that cannot be read"
	}
	return text.Line(u.Scheme+"://"+u.Host+u.EscapedPath(), maxFieldText)
}
