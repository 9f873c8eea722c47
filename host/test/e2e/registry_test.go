package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// registryCommand starts and stops registries:
//
//	registry start NAME [USER PASSWORD]  with TLS; NAME is then its address, NAME.crt its
//	                                     certificate, and NAME_CA that as text of YAML
//	registry stop NAME                   nobody listens at the address any more
//	registry resume NAME                 it is there again, with what it held
//	registry before NAME PROXY           a proxy without TLS before it, with the address PROXY
//	registry digest PROXY IMAGE VAR      VAR is the digest of PATH:TAG
//	registry lie PROXY manifests|blobs|nothing
//	                                     what it answers where a digest is asked for is another
//	                                     manifest (that of the tag v1), or another blob
func (h *harness) registryCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "registry start|stop|resume|before|digest|lie NAME ...")
	switch args[0] {
	case "start":
		h.startRegistry(ts, args[1], args[2:])
	case "stop":
		ts.Check(h.registries[args[1]].Stop())
	case "resume":
		ts.Check(h.registries[args[1]].Resume())
	case "before":
		usage(ts, len(args) == 3, "registry before NAME PROXY")
		p := newRegistryProxy(h.registries[args[1]])
		h.proxies[args[2]] = p
		ts.Setenv(args[2], p.Listener.Addr().String())
	case "digest":
		usage(ts, len(args) == 4, "registry digest PROXY IMAGE VAR")
		digest, err := h.proxies[args[1]].digest(args[2])
		ts.Check(err)
		ts.Setenv(args[3], digest)
	case "lie":
		usage(ts, len(args) == 3, "registry lie PROXY manifests|blobs|nothing")
		h.proxies[args[1]].lie.Store(args[2])
	default:
		ts.Fatalf("registry %s: unknown", args[0])
	}
}

func (h *harness) startRegistry(ts *testscript.TestScript, name string, account []string) {
	dir := ts.MkAbs(".registry-" + name)
	ts.Check(os.Mkdir(dir, 0o700))
	o := devregistry.Options{AssetsDir: filepath.Dir(h.cluster.Kubectl()), Dir: dir, TLS: true}
	if len(account) == 2 {
		o.User, o.Password = account[0], account[1]
	}
	r, err := devregistry.Start(o)
	ts.Check(err)
	h.registries[name] = r
	ts.Setenv(name, r.Address)
	ts.Setenv(name+"_CA", strings.ReplaceAll(r.CABundle, "\n", `\n`))
	ts.Check(os.WriteFile(ts.MkAbs(name+".crt"), []byte(r.CABundle), 0o600))
}

func (h *harness) stopRegistries() {
	for _, p := range h.proxies {
		p.stop()
	}
	for _, r := range h.registries {
		_ = r.Stop() // it is killed
	}
}

// secretType is that of a Secret with these keys.
func secretType(data map[string][]byte) corev1.SecretType {
	if _, ok := data[corev1.DockerConfigJsonKey]; ok {
		return corev1.SecretTypeDockerConfigJson
	}
	return corev1.SecretTypeOpaque
}
