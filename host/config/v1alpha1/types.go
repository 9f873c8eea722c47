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

// Provider is one module and what it may do.
type Provider struct {
	// Name is a DNS label of at most 40 characters. ConfigMaps of the host are
	// named after it, and messages, metrics, labels and annotations say it.
	Name   string `json:"name"`
	Source Source `json:"source"`
	// ConfigFrom is where the provider's configuration is, if it is not beside
	// its module.
	ConfigFrom *ConfigFrom `json:"configFrom,omitempty"`
	// Store names the provider's store (ConfigMap wasm-ccm-store-STORE), a DNS
	// label. Default for a single provider: the name in the module's manifest.
	// Of several providers each needs one of its own.
	Store string `json:"store,omitempty"`
	// Engine runs the module and those of its signers: wazero, or wasmtime where
	// the manager is built with it. Default: that of --wasm-engine.
	Engine string `json:"engine,omitempty"`
	// Capabilities are the host calls that the module may import beside the
	// log. Default: store, cache, nodes, event, http_send where there are grants,
	// and kube where something of it is granted.
	Capabilities []string `json:"capabilities,omitempty"`
	// Grants are what the provider may send HTTP requests to. None: no network.
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

// Addresses are which addresses and names load balancers, Nodes and routes may
// have by the provider's answers. Refused by default are loopback, link-local,
// metadata, multicast, broadcast and reserved addresses, those of the cluster's
// Services, names of this machine and of the cluster's own DNS, and routes to
// all of these or to everything. Entries are networks, as 10.0.0.0/8 or fd00::/8,
// and DNS names, which stand for all below them, too. At most 64 of each.
type Addresses struct {
	// Allow opens what is refused by default and lies within the entry. An entry
	// that is wider than what is refused (10.0.0.0/8, where the Services are in
	// 10.96.0.0/12) opens nothing of it. Multicast, broadcast and 0.0.0.0 stay
	// refused.
	Allow []string `json:"allow,omitempty"`
	// Deny is refused in any case, also where Allow has it.
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
	// Reference is HOST[:PORT]/PATH:TAG, or HOST[:PORT]/PATH@sha256:HEX, which
	// is verified and never asked for anew. The registry has TLS, unless it is
	// on loopback.
	Reference string `json:"reference"`
	// PullPolicy says when the registry is asked for what a tag stands for:
	// Always at each interval, IfNotPresent once when the manager starts. Default
	// Always, and IfNotPresent of a reference by digest, which can have no other.
	PullPolicy PullPolicy `json:"pullPolicy,omitempty"`
	// Interval is the longest time between two looks at the registry, and
	// between two tries when it fails: each is a tenth to a fifth earlier. 10s to
	// 24h, default 5m.
	Interval metav1.Duration `json:"interval,omitempty"`
	// PullSecret is a Secret of the type kubernetes.io/dockerconfigjson. It is
	// watched: another value is used at once.
	PullSecret *Reference `json:"pullSecret,omitempty"`
	// CABundle holds certificates in PEM that verify the registry and its token
	// server, instead of those of the system.
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
	ConfigMap *KeyReference `json:"configMap,omitempty"`
	// Secret is for a configuration that few may read: it is copied into no
	// ConfigMap, so a restart begins with what the source holds.
	Secret *KeyReference `json:"secret,omitempty"`
}

// KeyReference names a key of a namespaced object.
type KeyReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Key defaults to config.yaml.
	Key string `json:"key,omitempty"`
}

// Reference names a namespaced object.
type Reference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Grant allows HTTP requests.
type Grant struct {
	// Scheme is https or http. Default https.
	Scheme string `json:"scheme,omitempty"`
	// Host is a DNS name, one with the wildcard label * in front
	// (*.example.com), or an IP address.
	Host string `json:"host"`
	// Port defaults to that of the scheme.
	Port uint16 `json:"port,omitempty"`
	// PathPrefix defaults to /, which is everything.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Methods default to GET, HEAD, OPTIONS, POST, PUT, PATCH and DELETE.
	Methods []string `json:"methods,omitempty"`
	// Reads are the requests that change nothing, beside those by GET, HEAD and
	// OPTIONS without an action. While a new generation is only compared with
	// the one that serves, nothing else is sent. At most 64.
	Reads []Read `json:"reads,omitempty"`
	// CIDRs are addresses that the host may resolve to although they are
	// loopback, link-local, private or otherwise not public.
	CIDRs []string `json:"cidrs,omitempty"`
	// CABundle holds certificates in PEM that verify the server, instead of
	// those of the system.
	CABundle string `json:"caBundle,omitempty"`
	// ClientCertificate names a Secret of the type kubernetes.io/tls.
	ClientCertificate *Reference `json:"clientCertificate,omitempty"`
	// Credentials are the names of those that may be added to these requests.
	Credentials []string `json:"credentials,omitempty"`
}

// Read says of requests by one method, below one path, that they change nothing.
type Read struct {
	Method string `json:"method"`
	// PathPrefix defaults to /, which is everything below the grant.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Actions restrict it to requests with one action: DescribeInstances, or
	// Describe* for all that begin so. The action is the parameter Action or
	// command of the query or of a form in the body, or the last part of the
	// header X-Amz-Target, X-TC-Action or SOAPAction. A request with two has
	// none of these. At most 64. Default: whatever the action.
	Actions []string `json:"actions,omitempty"`
}

// Credential is a Secret and how it authenticates a request: one of the
// pointers is set.
type Credential struct {
	// Name is a DNS label, which the provider says.
	Name   string    `json:"name"`
	Secret Reference `json:"secret"`
	// PublicKeys are keys of the Secret whose values are no secrets, as the name
	// of a user or of a region: they are not replaced in what comes back.
	PublicKeys []string `json:"publicKeys,omitempty"`

	Header                  *HeaderCredential `json:"header,omitempty"`
	Basic                   *BasicCredential  `json:"basic,omitempty"`
	Bearer                  *BearerCredential `json:"bearer,omitempty"`
	Query                   *QueryCredential  `json:"query,omitempty"`
	OAuth2ClientCredentials *OAuth2Credential `json:"oauth2ClientCredentials,omitempty"`
	AWSSigV4                *AWSSigV4         `json:"awsSigV4,omitempty"`
	Signer                  *SignerCredential `json:"signer,omitempty"`
	BodyTemplate            *BodyTemplate     `json:"bodyTemplate,omitempty"`

	// Session keeps what a login gives from the provider. It goes with
	// bodyTemplate, and with basic, which is then for requests without a session.
	Session *Session `json:"session,omitempty"`
}

// HeaderCredential sets a header to a value of the Secret.
type HeaderCredential struct {
	Header string `json:"header"`
	// Prefix stands before the value, e.g. "Token ".
	Prefix string `json:"prefix,omitempty"`
	// Key in the Secret. Default token.
	Key string `json:"key,omitempty"`
}

// BasicCredential is RFC 7617. The defaults are those of Secrets of the type
// kubernetes.io/basic-auth: username and password.
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
	// Token is where tokens are asked for; the provider cannot reach it by it.
	Token Endpoint `json:"token"`
	// ClientIDKey and ClientSecretKey are keys in the Secret. Defaults
	// client_id and client_secret.
	ClientIDKey     string   `json:"clientIDKey,omitempty"`
	ClientSecretKey string   `json:"clientSecretKey,omitempty"`
	Scopes          []string `json:"scopes,omitempty"`
	// Audience is sent along when it is set.
	Audience string `json:"audience,omitempty"`
}

// AWSSigV4 is AWS Signature Version 4.
type AWSSigV4 struct {
	Region  string `json:"region"`
	Service string `json:"service"`
	// Keys in the Secret. Defaults access_key_id, secret_access_key and, where
	// the Secret has it, session_token; one that is named here must be there.
	AccessKeyIDKey     string `json:"accessKeyIDKey,omitempty"`
	SecretAccessKeyKey string `json:"secretAccessKeyKey,omitempty"`
	SessionTokenKey    string `json:"sessionTokenKey,omitempty"`
}

// SignerCredential is a guest of its own that holds the secret and has no
// network.
type SignerCredential struct {
	// Source of the signer's module. It has to be another one than the
	// provider's.
	Source Source `json:"source"`
	// Config goes to the signer as it is.
	Config string `json:"config,omitempty"`
	// Tokens are where the host sends the token requests of the signer. Their
	// hosts may have a wildcard, as that of a Grant. None: it makes none.
	Tokens []Endpoint `json:"tokens,omitempty"`
}

// BodyTemplate is for a secret that stands in a body, as the password in that of a
// login: where the body of the provider holds the placeholder, the host sends
// another one, which is written here.
type BodyTemplate struct {
	// Placeholder is what the provider is given instead of the secret, as the
	// password in its configuration: 8 to 128 letters, digits, '.', '_' and '-'.
	Placeholder string `json:"placeholder"`
	// Method and Path are those of the request, compared as it is sent; it has no
	// query. Method defaults to POST.
	Method string `json:"method,omitempty"`
	Path   string `json:"path"`
	// ContentType is sent with the body, and says how values are escaped: one of
	// XML, of JSON, or application/x-www-form-urlencoded.
	ContentType string `json:"contentType"`
	// Headers are sent with the body, instead of the provider's of these names.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the whole body. $(KEY) is the value of a key of the Secret, $$( is
	// $( itself.
	Body string `json:"body"`
}

// Session is where an answer has what stands for a login. The provider gets a
// placeholder for it. Cookie is set, or Header and Field.
type Session struct {
	// Cookie is the name of a cookie, in answers and in requests.
	Cookie string `json:"cookie,omitempty"`
	// Header is the name of a header of later requests. The session is its last
	// word, as in Authorization: Bearer SESSION.
	Header string `json:"header,omitempty"`
	// Field is where the JSON of a login's answer has the value of the header:
	// names of fields with dots between them, or "." where the answer is the value.
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
	// Concurrent is how many are under way at most. Default 16.
	Concurrent int `json:"concurrent,omitempty"`
	// Timeout bounds one request. Default 5m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// ResponseBytes bounds the responses of one batch. Default 8Mi.
	ResponseBytes resource.Quantity `json:"responseBytes,omitempty"`
}

// Ops bound the requests of the host to the provider.
type Ops struct {
	// Timeout bounds one op. Default 30s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Timeouts are those of single ops, by name, e.g. lb_ensure. Those that load
	// a module (describe, configure, probe) have none of their own.
	Timeouts map[string]metav1.Duration `json:"timeouts,omitempty"`
	// Foreground is how long a controller's worker waits for an op, which goes
	// on in the background after it. Default 2s.
	Foreground metav1.Duration `json:"foreground,omitempty"`
}

// Limits bound what a provider takes of the manager.
type Limits struct {
	// Instances run at the same time. Default 8.
	Instances int `json:"instances,omitempty"`
	// CallsPerInstance is after how many ops an instance is replaced. Default
	// 10000.
	CallsPerInstance int `json:"callsPerInstance,omitempty"`
	// Memory of one instance. Default 64Mi.
	Memory resource.Quantity `json:"memory,omitempty"`
	// Module is the largest module after decompression. Default 64Mi, at most
	// 256Mi.
	Module resource.Quantity `json:"module,omitempty"`
	// Compile bounds the process that compiles the module.
	Compile CompileLimits `json:"compile,omitempty"`
	// LogLinesPerSecond and LogBytesPerSecond bound the log, standard output
	// and error together. Defaults 100 and 64Ki.
	LogLinesPerSecond int               `json:"logLinesPerSecond,omitempty"`
	LogBytesPerSecond resource.Quantity `json:"logBytesPerSecond,omitempty"`
	// EventsPerSecond bounds Events. Default 5.
	EventsPerSecond int `json:"eventsPerSecond,omitempty"`
}

// CompileLimits bound the process that compiles a module: a vendor's own
// provider of 80 MB needs some 2Gi, 5m, 10m and 512Mi.
type CompileLimits struct {
	// Memory that the process may have allocated. Default 512Mi, at most 8Gi.
	Memory resource.Quantity `json:"memory,omitempty"`
	// CPU is its processor time, and Wall the time that it may take. Defaults 1m
	// and 1m, at most 1h.
	CPU  metav1.Duration `json:"cpu,omitempty"`
	Wall metav1.Duration `json:"wall,omitempty"`
	// Output is the most machine code. Default 256Mi, at most 1Gi.
	Output resource.Quantity `json:"output,omitempty"`
}

// DeletionBrake limits the deletion of Nodes whose instances, as the provider
// says, do not exist.
type DeletionBrake struct {
	// Percent of the Nodes, or Nodes, whichever is more, may go in one Period.
	// Percent of them, or Nodes but at most a third of the cluster, may go at
	// once. Defaults 10, 3 and 30m.
	Percent int             `json:"percent,omitempty"`
	Nodes   int             `json:"nodes,omitempty"`
	Period  metav1.Duration `json:"period,omitempty"`
	// Settle is how long the provider must keep saying that a machine does not
	// exist, and the kubelet be silent, before the Node may go; a kubelet with a
	// Lease for 20 s at least. Default 40s.
	Settle metav1.Duration `json:"settle,omitempty"`
}
