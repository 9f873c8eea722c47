// Package validation decides whether the manager can use a HostConfiguration or a
// CloudProvider. The packages that read hosts, addresses, keys and references check
// their own syntax; validation adds the path to each error. It is separate from
// v1alpha1, so that an import of the types does not import the manager.
package validation

import (
	"crypto/x509"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	tracingapi "k8s.io/component-base/tracing/api/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// Bounds of lists, so that the time of a check does not depend on the file.
const (
	maxRoutes      = 64
	maxClasses     = 16
	maxProvenance  = 64
	maxGrants      = 256
	maxReads       = 64 // of a grant; the actions of a read
	maxCredentials = 64
	maxEndpoints   = 16
	maxMethods     = 32
	maxPublicKeys  = 32
	maxInstances   = 256
	maxModuleBytes = 256 << 20
	maxScheme      = 63
	maxTracing     = 1024 // bytes of the endpoint
	// maxProviderName leaves room in the names of ConfigMaps and in labels.
	maxProviderName = 40
)

// Decode parses a file and validates it. The error lists every mistake with its
// path.
func Decode(data []byte) (*v1alpha1.HostConfiguration, error) {
	c, err := v1alpha1.Parse(data)
	if err != nil {
		return nil, err
	}
	// Invariant R2 (host/SECURITY.md): a configuration with a mistake is never returned.
	if err := Validate(c).ToAggregate(); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate returns every mistake of a defaulted configuration.
func Validate(c *v1alpha1.HostConfiguration) field.ErrorList {
	path := field.NewPath("providers")
	if len(c.Providers) == 0 && !c.CloudProviders.Enabled {
		return field.ErrorList{field.Required(path, "give at least one provider, or set cloudProviders.enabled")}
	}
	errs := validateProviders(c.Providers, path, path.Index)
	errs = append(errs, validateTracing(c.Tracing, field.NewPath("tracing"))...)
	return append(errs, validateBrake(c.DeletionBrake, field.NewPath("deletionBrake"))...)
}

func validateBrake(b v1alpha1.DeletionBrake, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, between(path.Child("percent"), b.Percent, 1, 100)...)
	errs = append(errs, between(path.Child("nodes"), b.Nodes, 1, 100_000)...)
	errs = append(errs, between(path.Child("settle"), b.Settle.Duration, time.Second, 10*time.Minute)...)
	return append(errs, between(path.Child("period"), b.Period.Duration, time.Minute, 24*time.Hour)...)
}

func validateTracing(t *v1alpha1.Tracing, path *field.Path) (errs field.ErrorList) {
	if t == nil {
		return nil
	}
	errs = append(errs, between(path.Child("samplingRatePerMillion"), int(t.SamplingRatePerMillion), 1, 1_000_000)...)
	if len(t.Endpoint) > maxTracing {
		return append(errs, field.TooLong(path.Child("endpoint"), "", maxTracing))
	}
	return append(errs, tracingapi.ValidateTracingConfiguration(&tracingapi.TracingConfiguration{Endpoint: &t.Endpoint}, nil, path)...)
}

func validateProvider(p *v1alpha1.Provider, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, label(path.Child("name"), p.Name)...)
	if len(p.Name) > maxProviderName {
		errs = append(errs, field.TooLong(path.Child("name"), "", maxProviderName))
	}
	if p.Store != "" {
		errs = append(errs, label(path.Child("store"), p.Store)...)
	}
	if p.Engine != "" && !slices.Contains(v1alpha1.Engines(), p.Engine) {
		errs = append(errs, field.NotSupported(path.Child("engine"), p.Engine, v1alpha1.Engines()))
	}
	errs = append(errs, validateRollout(p.Rollout, path.Child("rollout"))...)
	errs = append(errs, validateProvenance(p.Provenance, path.Child("provenance"))...)
	errs = append(errs, validateRouting(p.Routing, path.Child("routing"))...)
	errs = append(errs, validateAddresses(p.Addresses, path.Child("addresses"))...)
	errs = append(errs, validateSource(p.Source, path.Child("source"))...)
	errs = append(errs, validateConfigFrom(p, path.Child("configFrom"))...)
	errs = append(errs, validateCapabilities(p, path.Child("capabilities"))...)
	errs = append(errs, validateCredentials(p, path.Child("credentials"))...)
	errs = append(errs, validateKube(p, path.Child("kube"))...)
	grants := path.Child("grants")
	if len(p.Grants) > maxGrants {
		return append(errs, field.TooMany(grants, len(p.Grants), maxGrants))
	}
	for i := range p.Grants {
		errs = append(errs, validateGrant(&p.Grants[i], p.Credentials, grants.Index(i))...)
	}
	errs = append(errs, validateRequests(p.Requests, path.Child("requests"))...)
	errs = append(errs, validateOps(p.Ops, path.Child("ops"))...)
	return append(errs, validateLimits(p.Limits, path.Child("limits"))...)
}

func validateConfigFrom(p *v1alpha1.Provider, path *field.Path) (errs field.ErrorList) {
	from := p.ConfigFrom
	switch {
	case from == nil:
		return nil
	case (from.ConfigMap == nil) == (from.Secret == nil):
		return field.ErrorList{field.Required(path, "give either configMap or secret")}
	case from.Secret != nil:
		return keyReference(path.Child("secret"), *from.Secret)
	case p.Source.ConfigMap != nil && *p.Source.ConfigMap == objectOf(*from.ConfigMap):
		return field.ErrorList{field.Invalid(path.Child("configMap"), from.ConfigMap.Name, "it is the source, whose configuration is used anyway: remove configFrom, or name another ConfigMap")}
	}
	return keyReference(path.Child("configMap"), *from.ConfigMap)
}

func objectOf(r v1alpha1.KeyReference) v1alpha1.Reference {
	return v1alpha1.Reference{Namespace: r.Namespace, Name: r.Name}
}

func keyReference(path *field.Path, r v1alpha1.KeyReference) field.ErrorList {
	errs := reference(path, objectOf(r))
	for _, message := range validation.IsConfigMapKey(r.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), r.Key, message))
	}
	return errs
}

func validateCapabilities(p *v1alpha1.Provider, path *field.Path) (errs field.ErrorList) {
	known := abi.Capabilities()
	for i, name := range p.Capabilities {
		switch {
		case !slices.Contains(known, name):
			errs = append(errs, field.NotSupported(path.Index(i), name, known))
		case slices.Contains(p.Capabilities[:i], name):
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
	}
	if len(p.Grants) > 0 && !slices.Contains(p.Capabilities, abi.CapabilityHTTP) {
		errs = append(errs, field.Invalid(path, p.Capabilities, "there are grants: add http_send, or remove the grants"))
	}
	return errs
}

// validateGrant parses hosts, paths and methods with the code that later compares them.
func validateGrant(g *v1alpha1.Grant, credentials []v1alpha1.Credential, path *field.Path) (errs field.ErrorList) {
	if g.Host == "" {
		errs = append(errs, field.Required(path.Child("host"), "give a DNS name or an IP address"))
	} else {
		errs = append(errs, checked(path.Child("host"), g.Host, egress.CheckHost)...)
	}
	errs = append(errs, checked(path.Child("pathPrefix"), g.PathPrefix, egress.CheckPathPrefix)...)
	if len(g.Methods) > maxMethods {
		return append(errs, field.TooMany(path.Child("methods"), len(g.Methods), maxMethods))
	}
	for i, method := range g.Methods {
		errs = append(errs, checked(path.Child("methods").Index(i), method, egress.CheckMethod)...)
	}
	errs = append(errs, validateReads(g.Reads, path.Child("reads"))...)
	if g.Scheme != "https" && g.Scheme != "http" {
		errs = append(errs, field.NotSupported(path.Child("scheme"), g.Scheme, []string{"https", "http"}))
	}
	if g.Scheme == "http" && (g.CABundle != "" || g.ClientCertificate != nil) {
		errs = append(errs, field.Invalid(path.Child("scheme"), g.Scheme, "certificates need https"))
	}
	errs = append(errs, validateCIDRs(path.Child("cidrs"), g.CIDRs)...)
	errs = append(errs, validateBundle(path.Child("caBundle"), g.CABundle)...)
	if g.ClientCertificate != nil {
		errs = append(errs, reference(path.Child("clientCertificate"), *g.ClientCertificate)...)
	}
	for i, name := range g.Credentials {
		known := slices.ContainsFunc(credentials, func(c v1alpha1.Credential) bool { return c.Name == name })
		if !known {
			errs = append(errs, field.NotFound(path.Child("credentials").Index(i), name))
		}
	}
	return errs
}

func validateReads(reads []v1alpha1.Read, path *field.Path) (errs field.ErrorList) {
	if len(reads) > maxReads {
		return field.ErrorList{field.TooMany(path, len(reads), maxReads)}
	}
	for i, r := range reads {
		at := path.Index(i)
		errs = append(errs, checked(at.Child("method"), r.Method, egress.CheckMethod)...)
		errs = append(errs, checked(at.Child("pathPrefix"), r.PathPrefix, egress.CheckPathPrefix)...)
		if len(r.Actions) > maxReads {
			errs = append(errs, field.TooMany(at.Child("actions"), len(r.Actions), maxReads))
			continue
		}
		for j, action := range r.Actions {
			errs = append(errs, checked(at.Child("actions").Index(j), action, egress.CheckAction)...)
		}
	}
	return errs
}

func validateCIDRs(path *field.Path, cidrs []string) (errs field.ErrorList) {
	if len(cidrs) > maxEndpoints*4 {
		return field.ErrorList{field.TooMany(path, len(cidrs), maxEndpoints*4)}
	}
	for i, cidr := range cidrs {
		errs = append(errs, validateCIDR(path.Index(i), cidr)...)
	}
	return errs
}

func validateCIDR(path *field.Path, cidr string) field.ErrorList {
	if prefix, err := netip.ParsePrefix(cidr); err != nil || prefix.Masked() != prefix || prefix.Addr().Is4In6() {
		return field.ErrorList{field.Invalid(path, cidr, "must be a network such as 10.0.0.0/8 or fd00::/8, without host bits")}
	}
	return nil
}

func validateBundle(path *field.Path, bundle string) field.ErrorList {
	if bundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
		return field.ErrorList{field.Invalid(path, "...", "has no certificate in PEM")}
	}
	return nil
}

func validateEndpoint(path *field.Path, e v1alpha1.Endpoint, check func(url string) error) (errs field.ErrorList) {
	// The error does not quote a broken URL: it may hold a password.
	if err := check(e.URL); err != nil {
		errs = append(errs, field.Invalid(path.Child("url"), "...", "must be https://HOST[:PORT][/PATH], without user, query and fragment: "+err.Error()))
	}
	errs = append(errs, validateCIDRs(path.Child("cidrs"), e.CIDRs)...)
	return append(errs, validateBundle(path.Child("caBundle"), e.CABundle)...)
}

func validateRequests(r v1alpha1.Requests, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, between(path.Child("perSecond"), r.PerSecond, 0.01, 100_000)...)
	errs = append(errs, between(path.Child("burst"), r.Burst, 1, 100_000)...)
	errs = append(errs, between(path.Child("concurrent"), r.Concurrent, 1, 1024)...)
	errs = append(errs, between(path.Child("timeout"), r.Timeout.Duration, 100*time.Millisecond, time.Hour)...)
	return append(errs, bytesBetween(path.Child("responseBytes"), r.ResponseBytes, 1<<10, 8<<20)...)
}

func validateOps(o v1alpha1.Ops, path *field.Path) (errs field.ErrorList) {
	const least, most = 100 * time.Millisecond, time.Hour
	errs = append(errs, between(path.Child("timeout"), o.Timeout.Duration, least, most)...)
	for _, name := range slices.Sorted(maps.Keys(o.Timeouts)) {
		at := path.Child("timeouts").Key(name)
		switch op, ok := abi.ParseOp(name); {
		case !ok:
			errs = append(errs, field.Invalid(at, name, "is no op of the ABI, see abi/SPEC.md"))
		case op.Group() == abi.GroupLoading:
			errs = append(errs, field.Invalid(at, name, "has 30s, or the time of ops.timeout if that is shorter: remove it here"))
		case op.Group() == abi.GroupSigning:
			errs = append(errs, field.Invalid(at, name, "is an op of signers, and their time is fixed: remove it"))
		}
		errs = append(errs, between(at, o.Timeouts[name].Duration, least, most)...)
	}
	return append(errs, between(path.Child("foreground"), o.Foreground.Duration, 10*time.Millisecond, time.Minute)...)
}

func validateLimits(l v1alpha1.Limits, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, between(path.Child("instances"), l.Instances, 1, maxInstances)...)
	errs = append(errs, between(path.Child("callsPerInstance"), l.CallsPerInstance, 1, 1<<30)...)
	errs = append(errs, bytesBetween(path.Child("memory"), l.Memory, 1<<20, 4<<30)...)
	errs = append(errs, bytesBetween(path.Child("module"), l.Module, 1, maxModuleBytes)...)
	errs = append(errs, validateCompileLimits(l.Compile, path.Child("compile"))...)
	errs = append(errs, between(path.Child("logLinesPerSecond"), l.LogLinesPerSecond, 1, 100_000)...)
	errs = append(errs, bytesBetween(path.Child("logBytesPerSecond"), l.LogBytesPerSecond, 1<<10, 100<<20)...)
	return append(errs, between(path.Child("eventsPerSecond"), l.EventsPerSecond, 1, 1000)...)
}

func validateCompileLimits(l v1alpha1.CompileLimits, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, bytesBetween(path.Child("memory"), l.Memory, 64<<20, 8<<30)...)
	errs = append(errs, between(path.Child("cpu"), l.CPU.Duration, time.Second, time.Hour)...)
	errs = append(errs, between(path.Child("wall"), l.Wall.Duration, time.Second, time.Hour)...)
	return append(errs, bytesBetween(path.Child("output"), l.Output, 1<<20, 1<<30)...)
}

// checked asks the reader of a field whether it accepts the value.
func checked(path *field.Path, value string, check func(string) error) field.ErrorList {
	if err := check(value); err != nil {
		return field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	return nil
}

func label(path *field.Path, value string) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Label(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

func reference(path *field.Path, r v1alpha1.Reference) (errs field.ErrorList) {
	errs = append(errs, label(path.Child("namespace"), r.Namespace)...)
	for _, message := range validation.IsDNS1123Subdomain(r.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), r.Name, message))
	}
	return errs
}

func between[T int | float64 | time.Duration](path *field.Path, value, low, high T) field.ErrorList {
	if value >= low && value <= high {
		return nil
	}
	return field.ErrorList{outOfRange(path, value, low, high)}
}

func bytesBetween(path *field.Path, q resource.Quantity, low, high int64) field.ErrorList {
	if q.Value() >= low && q.Value() <= high {
		return nil
	}
	return field.ErrorList{outOfRange(path, q.String(), resource.NewQuantity(low, resource.BinarySI), resource.NewQuantity(high, resource.BinarySI))}
}
