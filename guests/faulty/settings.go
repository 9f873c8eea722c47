package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// settings are the configuration.
type settings struct {
	cloud       string
	exists      string
	count       string // without a final slash
	credential  string
	scheme      string
	zone        string
	trap        int
	metadata    string // the form of the answer; "" for a good one
	sneak       bool
	probe       string
	noBalancers bool
	routes      bool
	slow        map[string]time.Duration // by the word: configure, metadata or probe
}

func parse(text string) (settings, error) {
	s := settings{exists: "yes", scheme: "faulty", probe: "ok", slow: map[string]time.Duration{}}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		word, value := cut(line, "=")
		if !s.set(word, value) {
			return s, sdk.Invalidf("line %d: %q is not known", i+1, line)
		}
	}
	if s.count == "" && (s.routes || s.sneak || s.probe == "cloud") {
		return s, sdk.Invalidf("routes=on, sneak=on and probe=cloud need count=URL")
	}
	return s, nil
}

// set reports whether the word has the value.
func (s *settings) set(word, value string) (ok bool) {
	if took, slow := strings.CutPrefix(value, "slow:"); slow {
		return s.setSlow(word, took)
	}
	if took, busy := strings.CutPrefix(value, "busy:"); busy && word == "metadata" {
		s.metadata = "busy"
		return s.setSlow(word, took)
	}
	switch word {
	case "":
		return value == ""
	case "cloud":
		s.cloud = value
	case "count":
		s.count = strings.TrimSuffix(value, "/")
	case "scheme":
		s.scheme = value
		return value != ""
	case "zone":
		s.zone = value
	case "exists":
		s.exists = value
		return value == "yes" || value == "no" || value == "flaky"
	case "credential":
		s.credential = value
		return value == "cloud" // the manifest has no other
	case "probe":
		s.probe = value
		return value == "ok" || value == "fail" || value == "cloud"
	case "trap":
		n, err := strconv.Atoi(value)
		s.trap = n
		return err == nil && n > 0
	case "metadata":
		s.metadata = value
		return value == "trap" || value == "trap-later" || value == "hang" || value == "empty"
	case "sneak":
		s.sneak = value == "on"
		return value == "on"
	case "lb":
		s.noBalancers = value == "off"
		return value == "off" || value == "on"
	case "routes":
		s.routes = value == "on"
		return value == "off" || value == "on"
	default:
		return false
	}
	return true
}

func (s *settings) setSlow(word, took string) (ok bool) {
	d, err := time.ParseDuration(took)
	s.slow[word] = d
	return err == nil && d > 0 && (word == "configure" || word == "metadata" || word == "probe")
}

func cut(text, separator string) (before, after string) {
	before, after, _ = strings.Cut(text, separator)
	return before, after
}
