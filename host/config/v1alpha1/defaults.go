package v1alpha1

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// SetDefaults fills in what a file leaves out.
func SetDefaults(c *HostConfiguration) {
	for i := range c.Providers {
		setProviderDefaults(&c.Providers[i])
	}
	brake := &c.DeletionBrake
	set(&brake.Percent, 10)
	set(&brake.Nodes, 3)
	set(&brake.Period.Duration, 30*time.Minute)
	set(&brake.Settle.Duration, 40*time.Second)
}

func setProviderDefaults(p *Provider) {
	setSourceDefaults(&p.Source)
	if p.ConfigFrom != nil {
		setKeyDefault(p.ConfigFrom.ConfigMap)
		setKeyDefault(p.ConfigFrom.Secret)
	}
	for i := range p.Grants {
		setGrantDefaults(&p.Grants[i])
	}
	for i := range p.Credentials {
		setCredentialDefaults(&p.Credentials[i])
	}
	if p.Capabilities == nil {
		p.Capabilities = []string{abi.CapabilityStore, abi.CapabilityCache, abi.CapabilityNodes, abi.CapabilityEvent}
		if len(p.Grants) > 0 {
			p.Capabilities = append(p.Capabilities, abi.CapabilityHTTP)
		}
		if p.Kube.Granted() {
			p.Capabilities = append(p.Capabilities, abi.CapabilityKube)
		}
	}
	set(&p.Requests.PerSecond, 100)
	set(&p.Requests.Burst, 200)
	set(&p.Requests.Concurrent, 16)
	set(&p.Requests.Timeout.Duration, 5*time.Minute)
	setQuantity(&p.Requests.ResponseBytes, 8<<20)
	set(&p.Ops.Timeout.Duration, 30*time.Second)
	set(&p.Ops.Foreground.Duration, 2*time.Second)
	setLimitDefaults(&p.Limits)
	setRolloutDefaults(&p.Rollout)
}

func setSourceDefaults(s *Source) {
	if s.OCI == nil {
		return
	}
	policy := PullAlways
	if strings.Contains(s.OCI.Reference, "@") { // by digest
		policy = PullIfNotPresent
	}
	set(&s.OCI.PullPolicy, policy)
	set(&s.OCI.Interval.Duration, 5*time.Minute)
}

func setKeyDefault(r *KeyReference) {
	if r != nil {
		set(&r.Key, "config.yaml")
	}
}

func setRolloutDefaults(r *Rollout) {
	set(&r.Probe, PhaseRequired)
	set(&r.Shadow, PhaseRequired)
	set(&r.Observe, PhaseRequired)
	set(&r.ShadowSamples, 64)
	set(&r.ObservePeriod.Duration, 2*time.Minute)
	if r.ErrorBudget.Failures == nil {
		r.ErrorBudget.Failures = ptr.To(3)
	}
	if r.ErrorBudget.Percent == nil {
		r.ErrorBudget.Percent = ptr.To(5)
	}
}

func setLimitDefaults(l *Limits) {
	set(&l.Instances, 8)
	set(&l.CallsPerInstance, 10_000)
	setQuantity(&l.Memory, 64<<20)
	setQuantity(&l.Module, 64<<20)
	setQuantity(&l.Compile.Memory, 512<<20)
	set(&l.Compile.CPU.Duration, time.Minute)
	set(&l.Compile.Wall.Duration, time.Minute)
	setQuantity(&l.Compile.Output, 256<<20)
	set(&l.LogLinesPerSecond, 100)
	setQuantity(&l.LogBytesPerSecond, 64<<10)
	set(&l.EventsPerSecond, 5)
}

func setGrantDefaults(g *Grant) {
	set(&g.Scheme, "https")
	set(&g.PathPrefix, "/")
	for i := range g.Reads {
		set(&g.Reads[i].PathPrefix, "/")
	}
	if g.Port == 0 && g.Scheme == "http" {
		g.Port = 80
	}
	set(&g.Port, 443)
}

func setCredentialDefaults(c *Credential) {
	if c.Signer != nil {
		setSourceDefaults(&c.Signer.Source)
	}
	if c.Header != nil {
		set(&c.Header.Key, "token")
	}
	if c.Bearer != nil {
		set(&c.Bearer.Key, "token")
	}
	if c.Query != nil {
		set(&c.Query.Key, "token")
	}
	if c.Basic != nil {
		set(&c.Basic.UsernameKey, "username")
		set(&c.Basic.PasswordKey, "password")
	}
	if c.OAuth2ClientCredentials != nil {
		set(&c.OAuth2ClientCredentials.ClientIDKey, "client_id")
		set(&c.OAuth2ClientCredentials.ClientSecretKey, "client_secret")
	}
	if c.BodyTemplate != nil {
		set(&c.BodyTemplate.Method, "POST")
	}
	if c.AWSSigV4 != nil {
		set(&c.AWSSigV4.AccessKeyIDKey, "access_key_id")
		set(&c.AWSSigV4.SecretAccessKeyKey, "secret_access_key")
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setQuantity(field *resource.Quantity, value int64) {
	if field.IsZero() {
		*field = *resource.NewQuantity(value, resource.BinarySI)
	}
}
