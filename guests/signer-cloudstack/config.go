package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

// If the cloud's administrator enforces expiry, CloudStack accepts none later
// than this.
const maxExpires = 15 * time.Minute

const defaultExpires = 10 * time.Minute

// maxCommands is far above CloudStack's number.
const maxCommands = 2000

type config struct {
	expires  time.Duration // 0: signatures do not expire
	commands []string      // nil: all
}

func parseConfig(data []byte) (config, error) {
	c := config{expires: defaultExpires}
	root, err := yaml.Parse(data)
	if err != nil {
		return c, err
	}
	if root.Kind != yaml.Map && root.Kind != yaml.Null {
		return c, fail(root.Line, "the configuration is %s, and must be a mapping", root.Kind)
	}
	for i := range root.Fields {
		f := &root.Fields[i]
		switch f.Key {
		case "expires_seconds":
			c.expires, err = parseExpires(f)
		case "commands":
			c.commands, err = parseCommands(f)
		default:
			err = fail(f.Line, "%.100q is unknown here; there are expires_seconds and commands", f.Key)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func parseExpires(f *yaml.Field) (time.Duration, error) {
	seconds, err := strconv.Atoi(f.Value.Value)
	if f.Value.Kind != yaml.Number || err != nil || seconds < 0 || seconds > int(maxExpires/time.Second) {
		return 0, fail(f.Value.Line, "expires_seconds must be a number from 1 to %d, or 0 for signatures that do not expire", maxExpires/time.Second)
	}
	return time.Duration(seconds) * time.Second, nil
}

func parseCommands(f *yaml.Field) ([]string, error) {
	if f.Value.Kind != yaml.List || len(f.Value.Items) == 0 || len(f.Value.Items) > maxCommands {
		return nil, fail(f.Value.Line, "commands must be a list of names of API commands; leave it out to allow all")
	}
	var commands []string
	for i := range f.Value.Items {
		item := &f.Value.Items[i]
		if item.Kind != yaml.Text || item.Value == "" {
			return nil, fail(item.Line, "an entry of commands is %s, and must be the name of an API command", item.Kind)
		}
		commands = append(commands, item.Value)
	}
	return commands, nil
}

func fail(line int, format string, args ...any) error {
	return &yaml.Error{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// checkCommand: all commands have one URL, so the host's grants cannot
// distinguish them.
func (c *config) checkCommand(command string) error {
	switch {
	case command == "":
		return sdk.Invalidf("the request has no parameter command, so it is none to the API of CloudStack")
	case c.commands != nil && !slices.Contains(c.commands, command):
		return sdk.Invalidf("the command %.100q is not among the commands in the configuration of signer-cloudstack", command)
	}
	return nil
}
