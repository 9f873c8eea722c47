package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// suggested is the beginning of a HostConfiguration. Its fields are those of
// v1alpha1, except those whose zero value would be written.
type suggested struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Providers  []suggestedProvider `json:"providers"`
}

type suggestedProvider struct {
	Name         string                `json:"name"`
	Source       suggestedSource       `json:"source"`
	Store        string                `json:"store,omitempty"`
	Capabilities []string              `json:"capabilities"`
	Grants       []v1alpha1.Grant      `json:"grants,omitempty"`
	Credentials  []v1alpha1.Credential `json:"credentials,omitempty"`
	Kube         v1alpha1.Kube         `json:"kube,omitzero"`
	Limits       *suggestedLimits      `json:"limits,omitempty"`
}

type suggestedSource struct {
	ConfigMap *v1alpha1.Reference `json:"configMap,omitempty"`
	OCI       *suggestedImage     `json:"oci,omitempty"`
}

type suggestedImage struct {
	Reference string `json:"reference"`
}

type suggestedLimits struct {
	Memory  resource.Quantity      `json:"memory"`
	Module  resource.Quantity      `json:"module"`
	Compile v1alpha1.CompileLimits `json:"compile"`
}

// largeModule is the size from which compiling a module needs more than a
// provider's default limits.
const largeModule = 16 << 20

// limitsFor are the limits for a module of this size; the zero value is the default.
func limitsFor(size int) v1alpha1.Limits {
	if size <= largeModule {
		return v1alpha1.Limits{}
	}
	return v1alpha1.Limits{
		Memory: resource.MustParse("128Mi"), Module: resource.MustParse("256Mi"),
		Compile: v1alpha1.CompileLimits{
			Memory: resource.MustParse("3Gi"), Output: resource.MustParse("512Mi"),
			CPU: metav1.Duration{Duration: 10 * time.Minute}, Wall: metav1.Duration{Duration: 20 * time.Minute},
		},
	}
}

// suggestion is the beginning of the HostConfiguration, with its guesses marked.
func (i inspection) suggestion() (string, error) {
	if i.signer() {
		return "\nA signer: it is named by a credential's signer, and is granted nothing.\n", nil
	}
	p, notes := i.provider()
	// Invariant R18 (host/SECURITY.md): the author of the module has written hosts
	// and names. They are marshalled, so that each is a value and never a field.
	data, err := inOrder(suggested{v1alpha1.APIVersion, v1alpha1.Kind, []suggestedProvider{p}})
	if err != nil {
		return "", err
	}
	if _, err := validation.Decode(data); err != nil {
		notes = append(notes, "the manager does not read it as it is: "+text.Line(err.Error(), 1024))
	}
	var b strings.Builder
	b.WriteString("\nA HostConfiguration for it:\n\n" + string(data))
	for _, note := range notes {
		b.WriteString("# " + note + "\n")
	}
	return b.String(), nil
}

// inOrder marshals fields in their order: a name before its contents.
func inOrder(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	inBlocks(&document)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err = errors.Join(e.Encode(&document), e.Close())
	return out.Bytes(), err
}

// inBlocks removes JSON's flow style.
func inBlocks(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		inBlocks(child)
	}
}

func (i inspection) provider() (p suggestedProvider, notes []string) {
	m := i.manifest
	p = suggestedProvider{Name: m.Name, Capabilities: append([]string{}, m.Capabilities...)}
	p.Source.ConfigMap = &v1alpha1.Reference{Namespace: "kube-system", Name: "cloud-provider-" + m.Name}
	if slices.Contains(m.Capabilities, abi.CapabilityStore) {
		p.Store = m.Name
	}
	if i.compressed > maxConfigMap {
		p.Source = suggestedSource{OCI: &suggestedImage{"registry.example.com/providers/" + m.Name + ":v1"}}
		notes = append(notes, "source: ccmctl push makes the image")
	}
	for _, name := range m.Credentials {
		p.Credentials = append(p.Credentials, v1alpha1.Credential{Name: name, Secret: v1alpha1.Reference{Namespace: "kube-system", Name: m.Name}, Bearer: &v1alpha1.BearerCredential{}})
	}
	if len(m.Credentials) > 0 {
		notes = append(notes, "credentials: bearer is a guess, there are other kinds")
	}
	if slices.Contains(m.Capabilities, abi.CapabilityHTTP) {
		grants, doubts := suggestGrants(m.Hosts, m.Credentials)
		p.Grants, notes = grants, append(notes, doubts...)
	}
	if slices.Contains(m.Capabilities, abi.CapabilityKube) {
		p.Kube.Nodes = true
		notes = append(notes, "kube: the objects of the cluster that it reads")
	}
	if l := limitsFor(i.size); i.size > largeModule {
		p.Limits = &suggestedLimits{l.Memory, l.Module, l.Compile}
		notes = append(notes, "limits: the module is large: the chart needs a larger resources.limits.memory and cache.sizeLimit, too (deploy/docs/module-sources.md)")
	}
	return p, notes
}

// suggestGrants are the grants for the manifest's hosts.
func suggestGrants(hosts, credentials []string) (grants []v1alpha1.Grant, doubts []string) {
	if len(hosts) == 0 {
		return nil, []string{"grants: the manifest names no hosts: which does its configuration name?"}
	}
	for _, address := range hosts {
		g, err := grantOf(address, credentials)
		if err != nil {
			doubts = append(doubts, "grants: "+text.Quote(address)+" of the manifest is left out: "+err.Error())
			continue
		}
		grants = append(grants, g)
	}
	return grants, append(doubts, "grants: the author of the module names these hosts; are they your cloud's?")
}

func grantOf(address string, credentials []string) (g v1alpha1.Grant, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return g, errors.New("it is no URL")
	}
	g = v1alpha1.Grant{Host: u.Hostname(), PathPrefix: "/" + strings.TrimPrefix(u.Path, "/"), Credentials: credentials}
	if u.Scheme != "https" {
		g.Scheme = u.Scheme
	}
	if u.Port() != "" {
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return g, errors.New("its port is none")
		}
		g.Port = uint16(port)
	}
	return g, nil
}
