package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

const (
	configMapName = "provider"
	moduleKey     = "provider.wasm"
	configKey     = "config.yaml"
	// maxPlain is the largest module that goes into a ConfigMap as it is; a
	// ConfigMap holds 1 MiB.
	maxPlain = 900 << 10
	// serveLimit is the time for a module to be compiled and to serve.
	serveLimit = 60 * time.Second
)

//go:embed inventory.tmpl
var inventory string

// guest is a module as make built it.
type guest struct {
	key     string
	stored  []byte
	version string
	digest  string
}

func readGuest(path string) (guest, error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return guest{}, fmt.Errorf("%w (make guests)", err)
	}
	section, found, err := manifest.Section(module)
	if err != nil {
		return guest{}, fmt.Errorf("%s: %w", path, err)
	}
	if !found {
		return guest{}, fmt.Errorf("%s: no manifest (make guests)", path)
	}
	m, err := manifest.Parse(section)
	if err != nil {
		return guest{}, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256(module)
	g := guest{key: moduleKey, stored: module, version: m.Version, digest: hex.EncodeToString(sum[:])}
	if len(module) > maxPlain {
		g.key = moduleKey + ".gz"
		g.stored, err = compress(module)
	}
	return g, err
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// configuration fills the names of this show's nodes into the inventory.
func (st *stage) configuration() (string, error) {
	t, err := template.New("inventory").Parse(inventory)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]string{"Prefix": st.prefix})
	return out.String(), err
}

func (st *stage) configMap(g guest) (*corev1.ConfigMap, error) {
	config, err := st.configuration()
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: st.system},
		Data:       map[string]string{configKey: config},
		BinaryData: map[string][]byte{g.key: g.stored},
	}, nil
}

// offerModule creates the ConfigMap with the guest and its inventory.
func (st *stage) offerModule(ctx context.Context) error {
	st.show.step("the guest goes into a ConfigMap")
	g, err := readGuest(filepath.Join(st.options.build, "static.wasm"))
	if err != nil {
		return err
	}
	cm, err := st.configMap(g)
	if err != nil {
		return err
	}
	if _, err := st.client.CoreV1().ConfigMaps(st.system).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create ConfigMap %s/%s: %w", st.system, configMapName, err)
	}
	st.show.fact("configmap "+configMapName, fmt.Sprintf("%d KB of WebAssembly, version %s, sha256:%.12s", len(g.stored)/1000, g.version, g.digest))
	return nil
}

// startManager starts the real binary and waits until the guest serves.
func (st *stage) startManager(ctx context.Context) error {
	const step = "the manager starts"
	st.show.step("%s", step)
	g, err := readGuest(filepath.Join(st.options.build, "static.wasm"))
	if err != nil {
		return err
	}
	if err := st.manager.start(st.flags()); err != nil {
		return err
	}
	st.show.fact("manager", fmt.Sprintf("process %d, log in %s", st.manager.cmd.Process.Pid, st.manager.logPath()))
	return st.show.expect(ctx, step, serveLimit, st.serving(g))
}

// flags are those of an ordinary manager, with quicker loops.
func (st *stage) flags() []string {
	flags := []string{
		"--kubeconfig=" + st.kubeconfig,
		"--authentication-kubeconfig=" + st.kubeconfig,
		"--authorization-kubeconfig=" + st.kubeconfig,
		"--provider-configmap=" + st.system + "/" + configMapName,
		"--provider-store-namespace=" + st.system,
		"--health-probe-bind-address=0",
		"--cluster-cidr=10.244.0.0/16",
		"--allocate-node-cidrs=false",
		"--leader-elect-resource-namespace=" + st.system,
		"--node-status-update-frequency=2s",
		"--node-monitor-period=2s",
		"--route-reconciliation-period=2s",
		"--v=2",
	}
	if st.cluster == nil {
		// The cluster's own nodes are not in the inventory: they must be
		// neither deleted nor given routes.
		flags = append(flags, "--controllers=*,-cloud-node-lifecycle-controller,-node-route-controller")
	}
	return flags
}

// serving expects the Event and the metric of a guest that serves.
func (st *stage) serving(g guest) []expectation {
	return []expectation{{
		subject: "event ProviderServing", waiting: "an Event on the ConfigMap names sha256:" + g.digest[:12],
		look: func(ctx context.Context) (string, error) { return st.event(ctx, "ProviderServing", g.digest) },
	}, {
		subject: "metric", waiting: "wasm_ccm_provider_serving has version " + g.version,
		look: func(ctx context.Context) (string, error) {
			if err := st.manager.running(); err != nil {
				return "", err
			}
			lines, err := st.manager.metrics(ctx, st.config, "wasm_ccm_provider_serving{")
			for _, line := range lines {
				if strings.Contains(line, g.digest) && strings.HasSuffix(line, " 1") {
					return line, nil
				}
			}
			return "", err
		},
	}}
}

// event returns the message of an Event on the ConfigMap that has the text, or "".
func (st *stage) event(ctx context.Context, reason, text string) (string, error) {
	events, err := st.client.CoreV1().Events(st.system).List(ctx, metav1.ListOptions{
		FieldSelector: "reason=" + reason + ",involvedObject.name=" + configMapName})
	if err != nil {
		return "", err
	}
	for _, e := range events.Items {
		if strings.Contains(e.Message, text) {
			return e.Message, nil
		}
	}
	return "", nil
}

// replaceModule offers another build of the guest and checks that nothing else
// changes.
func (st *stage) replaceModule(ctx context.Context) error {
	const step = "the guest is replaced while everything runs"
	st.show.step("%s", step)
	g, err := readGuest(filepath.Join(st.options.build, "static-next.wasm"))
	if err != nil {
		return err
	}
	if st.before, err = st.serviceState(ctx); err != nil {
		return err
	}
	cm, err := st.configMap(g)
	if err != nil {
		return err
	}
	if _, err := st.client.CoreV1().ConfigMaps(st.system).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update ConfigMap %s/%s: %w", st.system, configMapName, err)
	}
	if err := st.show.expect(ctx, step, serveLimit, st.serving(g)); err != nil {
		return err
	}
	return st.checkUndisturbed(ctx, step)
}

// checkUndisturbed waits until the loops have got an answer about a Node, which
// the new guest gave since listings do not outlive a guest, and compares the
// Service with what it was before.
func (st *stage) checkUndisturbed(ctx context.Context, step string) error {
	const counter, op = "wasm_ccm_provider_node_answers_total", "instance_metadata"
	before, err := st.sum(ctx, counter, op)
	if err != nil {
		return err
	}
	err = st.show.expect(ctx, step, nodeLimit, []expectation{{
		subject: "new guest", waiting: "an answer about a Node",
		look: func(ctx context.Context) (string, error) {
			now, err := st.sum(ctx, counter, op)
			if err != nil || now <= before {
				return "", err
			}
			return fmt.Sprintf("answers the node loop (%g times so far, with the guest before)", now), nil
		},
	}})
	if err != nil {
		return err
	}
	after, err := st.serviceState(ctx)
	if err != nil {
		return err
	}
	if after != st.before {
		return fmt.Errorf("step %q: the Service was touched: before %+v, after %+v", step, st.before, after)
	}
	st.show.fact("service "+serviceName, fmt.Sprintf("keeps %s, is unchanged and was not ensured again (%g times in all)", after.address, after.ensured))
	return nil
}
