package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a file begins with.
const (
	APIVersion = "config.wasm-ccm.dev/v1alpha1"
	Kind       = "HostConfiguration"
)

// HostConfiguration is what the administrator decides about the host.
type HostConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// Providers are the modules that are run, 1 to 16; with cloudProviders.enabled
	// there may be none. Each has a failure domain of its own.
	Providers []Provider `json:"providers"`
	// DeletionBrake stands between "this instance does not exist" and the
	// deletion of Nodes.
	DeletionBrake DeletionBrake `json:"deletionBrake,omitempty"`
	// CloudProviders is whether objects of the cluster are providers, too.
	CloudProviders CloudProviders `json:"cloudProviders,omitempty"`
	// Tracing is where the manager sends OpenTelemetry spans. Default: nowhere.
	Tracing *Tracing `json:"tracing,omitempty"`
}

// Engines are those that Provider.Engine may name; a manager may have been built without one.
func Engines() []string { return []string{"wazero", "wasmtime"} }

// Provider is one module and what it may do.
type Provider struct {
	// Name is a DNS label of at most 40 characters.
	Name   string `json:"name"`
	Source Source `json:"source"`
	// ConfigFrom is where the provider's configuration is, if not beside its module.
	ConfigFrom *ConfigFrom `json:"configFrom,omitempty"`
	// Store names the ConfigMap wasm-ccm-store-STORE, a DNS label. Several providers need one
	// each. Default for a single provider: the name in the module's manifest.
	Store string `json:"store,omitempty"`
	// Engine runs the module and its signers: wazero, or wasmtime if the manager has it. Default:
	// --wasm-engine.
	Engine string `json:"engine,omitempty"`
	// Capabilities are the host calls that the module may import beside the log. Default: store,
	// cache, nodes, event, http_send with grants, and kube if it has any.
	Capabilities []string `json:"capabilities,omitempty"`
	// Grants are where the provider may send HTTP requests. None: no network.
	Grants []Grant `json:"grants,omitempty"`
	// Credentials are secrets that the host adds to requests.
	Credentials []Credential `json:"credentials,omitempty"`
	// Kube is what the provider may read of the cluster's objects. None: nothing.
	Kube       Kube       `json:"kube,omitempty"`
	Requests   Requests   `json:"requests,omitempty"`
	Ops        Ops        `json:"ops,omitempty"`
	Limits     Limits     `json:"limits,omitempty"`
	Rollout    Rollout    `json:"rollout,omitempty"`
	Provenance Provenance `json:"provenance,omitempty"`
	Routing    Routing    `json:"routing,omitempty"`
	Addresses  Addresses  `json:"addresses,omitempty"`
}

// Addresses restrict the addresses and names that the provider may answer for load balancers, Nodes
// and routes: deploy/docs/addresses.md has what is refused by default. Entries are networks or DNS
// names with all names below them. At most 64 of each.
type Addresses struct {
	// Allow are exceptions within what is refused by default: 10.0.0.0/8 does not open Services in
	// 10.96.0.0/12. Multicast, broadcast and 0.0.0.0 stay refused.
	Allow []string `json:"allow,omitempty"`
	// Deny takes precedence over Allow.
	Deny []string `json:"deny,omitempty"`
}

// Source is where a module comes from: one of its fields.
type Source struct {
	// ConfigMap is watched through the API.
	ConfigMap *Reference `json:"configMap,omitempty"`
	// Directory is a mounted ConfigMap or another volume, watched for changes.
	Directory string `json:"directory,omitempty"`
	// OCI is an image in a registry, which the manager pulls itself.
	OCI *OCISource `json:"oci,omitempty"`
}

// OCISource is an image in a registry: one with one layer whose files are those
// of a directory, as ccmctl push makes it, or an artifact with one layer that is
// the module (application/wasm, or Istio's). While the registry cannot be asked,
// what it held last stays.
type OCISource struct {
	// Reference is HOST[:PORT]/PATH:TAG, or HOST[:PORT]/PATH@sha256:HEX, which is never asked for
	// anew. The registry must have TLS, except on loopback.
	Reference string `json:"reference"`
	// PullPolicy is when the registry is asked for a tag: Always at each interval, IfNotPresent
	// once when the manager starts. Default Always. A digest has IfNotPresent, and no other.
	PullPolicy PullPolicy `json:"pullPolicy,omitempty"`
	// Interval is the longest time between two looks at the registry; each is a tenth to a fifth
	// earlier. 10s to 24h, default 5m.
	Interval metav1.Duration `json:"interval,omitempty"`
	// PullSecret is a Secret of the type kubernetes.io/dockerconfigjson. A change is used at once.
	PullSecret *Reference `json:"pullSecret,omitempty"`
	// CABundle is PEM certificates that verify the registry and its token server, instead of the
	// system's.
	CABundle string `json:"caBundle,omitempty"`
}

// PullPolicy says when a registry is asked, in Kubernetes' words.
type PullPolicy string

// The pull policies.
const (
	PullAlways       PullPolicy = "Always"
	PullIfNotPresent PullPolicy = "IfNotPresent"
)

// ConfigFrom is where a configuration is: one of its fields. It is watched
// through the API. The provider gets it as it is.
type ConfigFrom struct {
	// ConfigMap is watched through the API.
	ConfigMap *KeyReference `json:"configMap,omitempty"`
	// Secret is for a confidential configuration: no ConfigMap has a copy, so a restart begins
	// with the source.
	Secret *KeyReference `json:"secret,omitempty"`
}

// KeyReference is the name of an object, and one of its keys.
type KeyReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Key defaults to config.yaml.
	Key string `json:"key,omitempty"`
}

// Reference is the name of an object.
type Reference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Grant allows HTTP requests.
type Grant struct {
	// Scheme is either https (default) or http.
	Scheme string `json:"scheme,omitempty"`
	// Host is a DNS name, possibly with the wildcard label * in front (*.example.com), or an IP
	// address.
	Host string `json:"host"`
	// Port: default of the scheme.
	Port uint16 `json:"port,omitempty"`
	// PathPrefix: default /, everything.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Methods: default GET, HEAD, OPTIONS, POST, PUT, PATCH and DELETE.
	Methods []string `json:"methods,omitempty"`
	// Reads are the requests that change nothing, beside GET, HEAD and OPTIONS without an action.
	// Only these are sent while a new generation is compared with the serving one. At most 64.
	Reads []Read `json:"reads,omitempty"`
	// CIDRs are loopback, link-local, private or otherwise not public addresses to which the host
	// may resolve.
	CIDRs []string `json:"cidrs,omitempty"`
	// CABundle is PEM certificates that verify the server, instead of the system's.
	CABundle string `json:"caBundle,omitempty"`
	// ClientCertificate is a Secret of the type kubernetes.io/tls.
	ClientCertificate *Reference `json:"clientCertificate,omitempty"`
	// Credentials are the names of those that these requests may have.
	Credentials []string `json:"credentials,omitempty"`
}

// Read says of requests by one method, below one path, that they change nothing.
type Read struct {
	Method string `json:"method"`
	// PathPrefix: default /, everything below the grant.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Actions restrict it to these, by parameter or header (deploy/docs/configure.md):
	// DescribeInstances, or Describe* as a prefix. A request with two does not match. At most 64.
	// Default: any.
	Actions []string `json:"actions,omitempty"`
}

// Credential is a Secret and how it authenticates a request: one of the
// pointers is set.
type Credential struct {
	// Name is a DNS label, by which the provider asks for it.
	Name   string    `json:"name"`
	Secret Reference `json:"secret"`
	// PublicKeys are keys of the Secret with public values, such as a region: they are not
	// replaced in responses.
	PublicKeys []string `json:"publicKeys,omitempty"`

	Header                  *HeaderCredential `json:"header,omitempty"`
	Basic                   *BasicCredential  `json:"basic,omitempty"`
	Bearer                  *BearerCredential `json:"bearer,omitempty"`
	Query                   *QueryCredential  `json:"query,omitempty"`
	OAuth2ClientCredentials *OAuth2Credential `json:"oauth2ClientCredentials,omitempty"`
	AWSSigV4                *AWSSigV4         `json:"awsSigV4,omitempty"`
	Signer                  *SignerCredential `json:"signer,omitempty"`
	BodyTemplate            *BodyTemplate     `json:"bodyTemplate,omitempty"`

	// Session hides the session of a login from the provider. It goes with bodyTemplate, and with
	// basic, which is then for requests without a session.
	Session *Session `json:"session,omitempty"`
}

// HeaderCredential sets a header to a value of the Secret.
type HeaderCredential struct {
	Header string `json:"header"`
	// Prefix of the value, e.g. "Token ".
	Prefix string `json:"prefix,omitempty"`
	// Key in the Secret. Default token.
	Key string `json:"key,omitempty"`
}

// BasicCredential is RFC 7617. Defaults as in Secrets of the type kubernetes.io/basic-auth:
// username and password.
type BasicCredential struct {
	UsernameKey string `json:"usernameKey,omitempty"`
	PasswordKey string `json:"passwordKey,omitempty"`
}

// BearerCredential is RFC 6750.
type BearerCredential struct {
	// Key in the Secret. Default token.
	Key string `json:"key,omitempty"`
}

// QueryCredential adds a query parameter.
type QueryCredential struct {
	Parameter string `json:"parameter"`
	// Key in the Secret. Default token.
	Key string `json:"key,omitempty"`
}

// OAuth2Credential is the client credentials grant of RFC 6749.
type OAuth2Credential struct {
	// Token is the token endpoint; the provider itself cannot reach it.
	Token Endpoint `json:"token"`
	// ClientIDKey and ClientSecretKey in the Secret. Defaults client_id and client_secret.
	ClientIDKey     string   `json:"clientIDKey,omitempty"`
	ClientSecretKey string   `json:"clientSecretKey,omitempty"`
	Scopes          []string `json:"scopes,omitempty"`
	// Audience is optional.
	Audience string `json:"audience,omitempty"`
}

// AWSSigV4 is AWS Signature Version 4.
type AWSSigV4 struct {
	Region  string `json:"region"`
	Service string `json:"service"`
	// Keys in the Secret. Defaults access_key_id, secret_access_key and, if the Secret has it,
	// session_token. A key that is named here must exist.
	AccessKeyIDKey     string `json:"accessKeyIDKey,omitempty"`
	SecretAccessKeyKey string `json:"secretAccessKeyKey,omitempty"`
	SessionTokenKey    string `json:"sessionTokenKey,omitempty"`
}

// SignerCredential is a module of its own that holds the secret and has no network.
type SignerCredential struct {
	// Source is where the signer's module comes from; it differs from the provider's.
	Source Source `json:"source"`
	// Config goes to the signer unchanged.
	Config string `json:"config,omitempty"`
	// Tokens are where the host sends the signer's token requests, with wildcards as in Grant.
	Tokens []Endpoint `json:"tokens,omitempty"`
}

// BodyTemplate is for a secret in a body, such as a login's: the host replaces a body with the
// placeholder by this one.
type BodyTemplate struct {
	// Placeholder is the provider's substitute for the secret: 8 to 128 letters, digits, '.', '_'
	// and '-'.
	Placeholder string `json:"placeholder"`
	// Method and Path of the request, which has no query. Method defaults to POST.
	Method string `json:"method,omitempty"`
	Path   string `json:"path"`
	// ContentType is sent, and decides how values are escaped: XML, JSON, or
	// application/x-www-form-urlencoded.
	ContentType string `json:"contentType"`
	// Headers replace the provider's of these names.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the whole body. $(KEY) is a value of the Secret, $$( is a literal $(.
	Body string `json:"body"`
}

// Session is where an answer has what stands for a login. The provider gets a
// placeholder for it. Cookie is set, or Header and Field.
type Session struct {
	// Cookie is the name of a cookie, in responses and in requests.
	Cookie string `json:"cookie,omitempty"`
	// Header is the name of a header of later requests, with the session as its last word:
	// Authorization: Bearer SESSION.
	Header string `json:"header,omitempty"`
	// Field is where the JSON of the login's response has the session: names of fields with dots
	// between them, or "." for all of it.
	Field string `json:"field,omitempty"`
}

// Endpoint is an URL (prefix) of the host's own requests.
type Endpoint struct {
	URL string `json:"url"`
	// CIDRs and CABundle as in Grant.
	CIDRs    []string `json:"cidrs,omitempty"`
	CABundle string   `json:"caBundle,omitempty"`
}

// Requests bound the HTTP requests of a provider.
type Requests struct {
	// PerSecond and Burst are its rate. Defaults 100 and 200.
	PerSecond float64 `json:"perSecond,omitempty"`
	Burst     int     `json:"burst,omitempty"`
	// Concurrent requests at most. Default 16.
	Concurrent int `json:"concurrent,omitempty"`
	// Timeout of one request. Default 5m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// ResponseBytes of one batch. Default 8Mi.
	ResponseBytes resource.Quantity `json:"responseBytes,omitempty"`
}

// Ops bound the calls of the provider.
type Ops struct {
	// Timeout of one op. Default 30s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Timeouts of single ops, by name, e.g. lb_ensure. Ops that load a module (describe,
	// configure, probe) have none of their own.
	Timeouts map[string]metav1.Duration `json:"timeouts,omitempty"`
	// Foreground is how long a controller's worker waits for an op, which then continues in the
	// background. Default 2s.
	Foreground metav1.Duration `json:"foreground,omitempty"`
}

// Limits bound the provider's use of the manager.
type Limits struct {
	// Instances run at the same time. Default 8.
	Instances int `json:"instances,omitempty"`
	// CallsPerInstance is how many ops an instance serves. Default 10000.
	CallsPerInstance int `json:"callsPerInstance,omitempty"`
	// Memory of one instance. Default 64Mi.
	Memory resource.Quantity `json:"memory,omitempty"`
	// Module is the largest module after decompression. Default 64Mi, at most
	// 256Mi.
	Module resource.Quantity `json:"module,omitempty"`
	// Compile bounds the compiling process.
	Compile CompileLimits `json:"compile,omitempty"`
	// LogLinesPerSecond and LogBytesPerSecond bound log, standard output and error together.
	// Defaults 100 and 64Ki.
	LogLinesPerSecond int               `json:"logLinesPerSecond,omitempty"`
	LogBytesPerSecond resource.Quantity `json:"logBytesPerSecond,omitempty"`
	// EventsPerSecond: default 5.
	EventsPerSecond int `json:"eventsPerSecond,omitempty"`
}

// CompileLimits bound the process that compiles a module: a vendor's own
// provider of 80 MB needs some 2Gi, 5m, 10m and 512Mi.
type CompileLimits struct {
	// Memory that it may allocate. Default 512Mi, at most 8Gi.
	Memory resource.Quantity `json:"memory,omitempty"`
	// CPU and Wall bound its processor time and its duration. Defaults 1m, at most 1h.
	CPU  metav1.Duration `json:"cpu,omitempty"`
	Wall metav1.Duration `json:"wall,omitempty"`
	// Output is the largest machine code. Default 256Mi, at most 1Gi.
	Output resource.Quantity `json:"output,omitempty"`
}

// DeletionBrake limits the deletion of Nodes whose instances, as the provider
// says, do not exist.
type DeletionBrake struct {
	// Percent of the Nodes, or Nodes, whichever is more, may go in one Period. Percent, or Nodes
	// but at most a third of the cluster, may go at once. Both are rounded down, and at least one.
	// Defaults 10, 3 and 30m.
	Percent int             `json:"percent,omitempty"`
	Nodes   int             `json:"nodes,omitempty"`
	Period  metav1.Duration `json:"period,omitempty"`
	// Settle is how long the provider must say that the machine does not exist, and the kubelet be
	// silent, before the Node may go; 20 s at least for a kubelet with a Lease. Default 40s.
	Settle metav1.Duration `json:"settle,omitempty"`
}
