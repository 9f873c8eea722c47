package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
)

// source is the commit that a release is made from.
type source struct {
	// commit is the full hash.
	commit string
	// created is when it was committed: the only time in a release.
	created time.Time
}

// readSource refuses what could not be made again: a version that is none, a
// tree that is not the commit's, a tag that says something else.
func readSource(ctx context.Context, version string) (source, error) {
	number, ok := strings.CutPrefix(version, "v")
	if v, err := semver.Parse(number); err != nil || !ok || len(v.Build) > 0 {
		return source{}, fmt.Errorf("the version %q is none of a release: write a semantic version with v and without +, as in make release VERSION=v0.2.0", version)
	}
	status, err := git(ctx, nil, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	if status != "" {
		return source{}, fmt.Errorf("the tree is dirty, so nobody could make this release again: commit or remove these:\n%s", status)
	}
	commit, err := git(ctx, nil, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	// Without a tag of this version there is no answer, and nothing wrong.
	if tagged, err := git(ctx, nil, "rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}"); err == nil && tagged != commit {
		return source{}, fmt.Errorf("the tag %s is of commit %.12s, but %.12s is checked out: check out the tag, or choose another version", version, tagged, commit)
	}
	text, err := git(ctx, nil, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return source{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("time of commit %s: %w", commit, err)
	}
	return source{commit, time.Unix(seconds, 0).UTC()}, nil
}

// export writes the files of the commit, and no other, into a new directory.
func (s source) export(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(filepath.Dir(dir), "tree.tar")
	top, err := git(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	// A user's git may write other ends of lines, or leave files out.
	if _, err := git(ctx, nil, "-C", top, "-c", "core.autocrlf=false", "-c", "core.eol=lf", "-c", "core.attributesFile=/dev/null", "archive", "--format=tar", "--output="+archive, s.commit); err != nil {
		return err
	}
	return command(ctx, dir, nil, "tar", "-xf", archive)
}

// git runs in the environment of ours and env.
func git(ctx context.Context, env []string, args ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "git", args...)
	c.Stderr, c.Env = &stderr, append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// command runs a program whose errors go where ours go.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr, c.Env = dir, os.Stderr, os.Stderr, append(os.Environ(), env...)
	if err := c.Run(); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err))
	}
	return nil
}
