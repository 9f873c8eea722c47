package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Bounds of a file of cases.
const (
	maxCasesBytes = 1 << 20
	maxNodes      = 1000
	maxObjects    = 32 // Services, routes, volumes
)

// Cases are the kit's inputs about a cloud.
type Cases struct {
	// ClusterName is sent with ops. Default "conformance".
	ClusterName string `json:"clusterName,omitempty"`
	// Nodes are existing machines of the cloud, at least two.
	Nodes []Node `json:"nodes"`
	// UnknownNode is a machine that the cloud does not have. Default: an
	// unlikely name, and a provider ID like the first node's.
	UnknownNode Node `json:"unknownNode,omitempty"`
	// ForeignProviderID is a provider ID of another cloud. Default
	// "other-cloud://i-0123456789".
	ForeignProviderID string `json:"foreignProviderID,omitempty"`
	// BadConfigs are configurations that the provider must refuse, beside
	// malformed ones from the kit.
	BadConfigs []string `json:"badConfigs,omitempty"`
	// Actions are for clouds that also read by POST. None: GET, HEAD and
	// OPTIONS read, and every other request writes.
	Actions *Actions `json:"actions,omitempty"`
	// Services are of type LoadBalancer, in Kubernetes' own form. Missing
	// fields get the API server's defaults. Default: one with port 80.
	Services []corev1.Service `json:"services,omitempty"`
	// Routes to pods of the nodes.
	Routes []Route `json:"routes,omitempty"`
	// Volumes are PersistentVolumes in Kubernetes' own form.
	Volumes []Volume `json:"volumes,omitempty"`
	// ForeignVolume is a volume of another cloud. Default: one of the CSI
	// driver other-cloud.example.com.
	ForeignVolume *corev1.PersistentVolume `json:"foreignVolume,omitempty"`
}

// Node is a machine, optionally with the provider's expected answers.
type Node struct {
	Name       string               `json:"name"`
	ProviderID string               `json:"providerID,omitempty"`
	Addresses  []corev1.NodeAddress `json:"addresses,omitempty"`
	PodCIDRs   []string             `json:"podCIDRs,omitempty"`
	Labels     map[string]string    `json:"labels,omitempty"`
}

// Route is a destination and the name of its node.
type Route struct {
	Node string `json:"node"`
	CIDR string `json:"cidr"`
}

// Volume is a PersistentVolume with its expected labels; without any, the
// labels only have to stay the same.
type Volume struct {
	PersistentVolume corev1.PersistentVolume `json:"persistentVolume"`
	Labels           map[string]string       `json:"labels,omitempty"`
}

// ParseCases reads a file of cases in YAML or JSON. Unknown fields are errors.
func ParseCases(data []byte) (Cases, error) {
	var c Cases
	if len(data) > maxCasesBytes {
		return c, fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), maxCasesBytes)
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return c, err
	}
	return c, c.validate()
}

func (c *Cases) validate() error {
	if len(c.Nodes) < 2 || len(c.Nodes) > maxNodes {
		return fmt.Errorf("%d nodes, from 2 to %d are needed: list machines that the cloud has", len(c.Nodes), maxNodes)
	}
	names := map[string]bool{}
	for _, n := range c.Nodes {
		if n.Name == "" || names[n.Name] {
			return fmt.Errorf("nodes: the name %q is empty or stands twice", n.Name)
		}
		names[n.Name] = true
	}
	if len(c.Services) > maxObjects || len(c.Routes) > maxObjects || len(c.Volumes) > maxObjects {
		return fmt.Errorf("more than %d services, routes or volumes", maxObjects)
	}
	for _, r := range c.Routes {
		if !names[r.Node] || r.CIDR == "" {
			return errors.New("routes: each needs a cidr and the name of one of the nodes")
		}
	}
	for _, s := range c.Services {
		if s.Name == "" {
			return errors.New("services: each needs metadata.name")
		}
	}
	_, err := newActions(c.Actions)
	return err
}

// withDefaults does not change the objects that c refers to.
func (c Cases) withDefaults() Cases {
	setDefault(&c.ClusterName, "conformance")
	setDefault(&c.ForeignProviderID, "other-cloud://i-0123456789")
	setDefault(&c.UnknownNode.Name, "conformance-no-such-node")
	if len(c.Services) == 0 {
		s := corev1.Service{}
		s.Name, s.Spec.Ports = "conformance", []corev1.ServicePort{{Name: "http", Port: 80}}
		c.Services = []corev1.Service{s}
	}
	services := make([]corev1.Service, len(c.Services))
	for i := range c.Services {
		services[i] = *c.Services[i].DeepCopy()
		fillService(&services[i], c.ClusterName, int32(i))
	}
	c.Services = services
	if c.ForeignVolume == nil {
		c.ForeignVolume = &corev1.PersistentVolume{}
		c.ForeignVolume.Name = "conformance-foreign"
		c.ForeignVolume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "other-cloud.example.com", VolumeHandle: "vol-0123456789"}
	}
	return c
}

// fillService adds the API server's defaults, and labels and annotations like a
// chart's to a Service without any: most Services in clusters have several.
func fillService(s *corev1.Service, cluster string, number int32) {
	setDefault(&s.Namespace, "conformance")
	if s.Labels == nil && s.Annotations == nil {
		s.Labels = map[string]string{
			"app.kubernetes.io/name": s.Name, "app.kubernetes.io/instance": s.Name, "app.kubernetes.io/version": "1.14.1",
			"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": s.Name + "-4.14.1",
		}
		s.Annotations = map[string]string{"meta.helm.sh/release-name": s.Name, "meta.helm.sh/release-namespace": s.Namespace}
	}
	setDefault(&s.UID, uidOf(cluster+"/"+s.Namespace+"/"+s.Name))
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	setDefault(&s.Spec.ClusterIP, fmt.Sprintf("10.96.213.%d", 10+number))
	if s.Spec.ClusterIPs == nil {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
	if s.Spec.IPFamilies == nil {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if s.Spec.IPFamilyPolicy == nil {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy = &single
	}
	setDefault(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	setDefault(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	for i := range s.Spec.Ports {
		fillPort(&s.Spec.Ports[i], 31000+100*number+int32(i))
	}
}

func fillPort(p *corev1.ServicePort, nodePort int32) {
	setDefault(&p.Protocol, corev1.ProtocolTCP)
	setDefault(&p.NodePort, nodePort)
	if p.TargetPort == (intstr.IntOrString{}) {
		p.TargetPort = intstr.FromInt32(p.Port)
	}
}

// uidOf returns the same UID for the same text in each run, so that a run finds
// and removes the leftovers of an earlier one.
func uidOf(text string) types.UID {
	d := sha256.Sum256([]byte(text))
	h := hex.EncodeToString(d[:])
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32])
}

func (n Node) object() *corev1.Node {
	o := &corev1.Node{}
	o.Name, o.UID, o.Labels = n.Name, uidOf("node/"+n.Name), n.Labels
	o.Spec.ProviderID, o.Spec.PodCIDRs = n.ProviderID, n.PodCIDRs
	o.Status.Addresses = n.Addresses
	return o
}

var uuidInID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// unlike returns an unused provider ID in the form of a known one.
func unlike(known, name string) string {
	if uuidInID.MatchString(known) {
		return uuidInID.ReplaceAllString(known, "c0ffee00-dead-4bad-8bad-00c0ffee0000")
	}
	scheme, _, found := strings.Cut(known, "://")
	if !found {
		return ""
	}
	return scheme + "://" + name
}
