package egress

import (
	"regexp"
	"strings"
)

// Bounds of a template: what is longer is cut, so it is still no label of many values.
const (
	maxTemplateSegments = 10
	maxTemplateWord     = 40
	// templateWords is how many of the first segments may be words. Later words are kept only after an id: in
	// /compute/v1/projects/p/servers/web-a/actions "servers" and "actions" say what is asked, "p" and "web-a" of what.
	templateWords = 3
)

var (
	templateVersion = regexp.MustCompile(`^v[0-9]{1,3}(\.[0-9]{1,3})?((alpha|beta)[0-9]{1,3})?$`)
	templateWord    = regexp.MustCompile(`^[A-Za-z][A-Za-z_.-]*$`)
	templateHex     = regexp.MustCompile(`^[0-9a-fA-F-]{8,}$`)
)

// Template returns an escaped path without the ids of objects: numbers, UUIDs, hexadecimal digits, all that has digits, and
// names become "*". A name among the first words cannot be told from a collection; who counts by templates bounds their number.
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
