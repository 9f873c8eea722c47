package egress

import (
	"regexp"
	"strings"
)

// Bounds of a template: longer ones are cut, so that the number of a label's values stays
// bounded.
const (
	maxTemplateSegments = 10
	maxTemplateWord     = 40
	// templateWords is how many of the first segments may be words. Later words are kept only after an id:
	// in /compute/v1/projects/p/servers/web-a/actions "servers" and "actions" name the request, "p" and
	// "web-a" the object.
	templateWords = 3
)

var (
	templateVersion = regexp.MustCompile(`^v[0-9]{1,3}(\.[0-9]{1,3})?((alpha|beta)[0-9]{1,3})?$`)
	templateWord    = regexp.MustCompile(`^[A-Za-z][A-Za-z_.-]*$`)
	templateHex     = regexp.MustCompile(`^[0-9a-fA-F-]{8,}$`)
)

// Template returns an escaped path without objects' ids: numbers, UUIDs, hexadecimal digits, all
// segments with digits, and names become "*". A name among the first words looks like a collection;
// callers that count by template bound the number.
func Template(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	cut := len(segments) > maxTemplateSegments
	if cut {
		segments = segments[:maxTemplateSegments]
	}
	afterID := false
	for i, s := range segments {
		word := len(s) <= maxTemplateWord && templateWord.MatchString(s) && !templateHex.MatchString(s)
		switch {
		case s == "", templateVersion.MatchString(s):
			afterID = false
		case word && (i < templateWords || afterID):
			afterID = false
		default:
			segments[i], afterID = "*", true
		}
	}
	out := "/" + strings.Join(segments, "/")
	if cut {
		out += "/..."
	}
	return out
}
