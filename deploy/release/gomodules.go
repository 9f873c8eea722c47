package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/gomodules"
)

// goModules is the directory of the parts that GOPROXY can name.
const goModules = "go-modules"

// versioned is the commit that the tags of the Go modules name: the release's,
// with go.mod files that require versions instead of neighbours.
type versioned struct {
	commit, version string
}

// versionModules writes the modules into parts, and their commit into git. It
// refuses a version that others may have by another content; it writes no tag.
func (s source) versionModules(ctx context.Context, work, parts, version string) (versioned, error) {
	tree := filepath.Join(work, "versioned")
	if err := s.export(ctx, tree); err != nil {
		return versioned{}, err
	}
	if err := gomodules.Write(tree, filepath.Join(parts, goModules), version, s.created); err != nil {
		return versioned{}, err
	}
	commit, err := s.commitModules(ctx, tree, filepath.Join(work, "index"), version)
	if err != nil {
		return versioned{}, err
	}
	for _, tag := range gomodules.Tags(version) {
		if tagged, err := git(ctx, nil, "rev-parse", "--quiet", "--verify", "refs/tags/"+tag+"^{commit}"); err == nil && tagged != commit {
			return versioned{}, fmt.Errorf("the tag %s is of commit %.12s, but this release has the modules of %.12s: choose another version", tag, tagged, commit)
		}
	}
	return versioned{commit, version}, nil
}

// commitModules makes the same commit of the same source, whoever runs it.
func (s source) commitModules(ctx context.Context, tree, index, version string) (string, error) {
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := git(ctx, env, "read-tree", s.commit); err != nil {
		return "", err
	}
	for _, dir := range gomodules.Modules() {
		for _, name := range []string{dir + "/go.mod", dir + "/go.sum"} {
			blob, err := git(ctx, nil, "hash-object", "-w", "--no-filters", filepath.Join(tree, name))
			if err != nil {
				return "", err
			}
			if _, err := git(ctx, env, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name); err != nil {
				return "", err
			}
		}
	}
	written, err := git(ctx, env, "write-tree")
	if err != nil {
		return "", err
	}
	at := fmt.Sprintf("%d +0000", s.created.Unix())
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=wasm-ccm release", "GIT_"+who+"_EMAIL=release@wasm-ccm.invalid", "GIT_"+who+"_DATE="+at)
	}
	message := "Go modules " + version + "\n\nThe modules require each other by version, without replace lines."
	return git(ctx, env, "-c", "i18n.commitEncoding=UTF-8", "commit-tree", "-p", s.commit, "-m", message, written)
}

// tag writes the tags. Nothing is pushed.
func (v versioned) tag(ctx context.Context) error {
	for _, tag := range gomodules.Tags(v.version) {
		if _, err := git(ctx, nil, "update-ref", "refs/tags/"+tag, v.commit); err != nil {
			return err
		}
	}
	return nil
}

// packGoModules writes the directory for GOPROXY as one file.
func (p packer) packGoModules() error {
	return p.packDir(goModules, filepath.Join(p.parts, goModules), goModules, func(_ string, content []byte) ([]byte, error) { return content, nil })
}
