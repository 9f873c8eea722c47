package main

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configuration is a bundle's view of a HostConfiguration. Paths, prefixes and
// certificates may contain a secret: they are left out, or replaced by their
// sizes.
type configuration struct {
	Providers     []provider `json:"providers"`
	DeletionBrake struct {
		Percent int             `json:"percent"`
		Nodes   int             `json:"nodes"`
		Period  metav1.Duration `json:"period"`
		Settle  metav1.Duration `json:"settle"`
	} `json:"deletionBrake"`
	CloudProviders struct {
		Enabled bool `json:"enabled"`
	} `json:"cloudProviders"`
	Tracing *struct {
		Endpoint               word  `json:"endpoint"`
		SamplingRatePerMillion int32 `json:"samplingRatePerMillion"`
	} `json:"tracing,omitempty"`
}

// cloudProvider is a bundle's view of a CloudProvider.
type cloudProvider struct {
	Metadata metadata       `json:"metadata"`
	Spec     *provider      `json:"spec,omitempty"`
	Mistaken bool           `json:"mistaken,omitempty"`
	Status   providerStatus `json:"status"`
}

type provider struct {
	Name         word             `json:"name"`
	Source       moduleSource     `json:"source"`
	ConfigFrom   *configFrom      `json:"configFrom,omitempty"`
	Store        word             `json:"store,omitempty"`
	Engine       word             `json:"engine,omitempty"`
	Capabilities []word           `json:"capabilities,omitempty"`
	Grants       []grantView      `json:"grants,omitempty"`
	Credentials  []credentialView `json:"credentials,omitempty"`
	Kube         struct {
		Nodes          bool        `json:"nodes,omitempty"`
		Services       []word      `json:"services,omitempty"`
		EndpointSlices []word      `json:"endpointSlices,omitempty"`
		ConfigMaps     []reference `json:"configMaps,omitempty"`
		Secrets        []reference `json:"secrets,omitempty"`
		Annotations    []word      `json:"annotations,omitempty"`
		Labels         []word      `json:"labels,omitempty"`
	} `json:"kube"`
	Requests struct {
		PerSecond     float64           `json:"perSecond"`
		Burst         int               `json:"burst"`
		Concurrent    int               `json:"concurrent"`
		Timeout       metav1.Duration   `json:"timeout"`
		ResponseBytes resource.Quantity `json:"responseBytes"`
	} `json:"requests"`
	Ops struct {
		Timeout    metav1.Duration `json:"timeout"`
		Timeouts   keys            `json:"timeouts,omitempty"`
		Foreground metav1.Duration `json:"foreground"`
	} `json:"ops"`
	Limits  limits  `json:"limits"`
	Rollout rollout `json:"rollout"`
	// Provenance has no key: PEM is free text.
	Provenance struct {
		Digests    []word `json:"digests,omitempty"`
		PublicKeys size   `json:"publicKeys,omitempty"`
	} `json:"provenance"`
	Routing struct {
		Nodes struct {
			Schemes []word `json:"schemes,omitempty"`
			Ask     bool   `json:"ask,omitempty"`
		} `json:"nodes"`
		Services struct {
			Default bool   `json:"default,omitempty"`
			Classes []word `json:"classes,omitempty"`
		} `json:"services"`
		Volumes struct {
			Drivers []word `json:"drivers,omitempty"`
			Schemes []word `json:"schemes,omitempty"`
		} `json:"volumes"`
	} `json:"routing"`
	Addresses struct {
		Allow []word `json:"allow,omitempty"`
		Deny  []word `json:"deny,omitempty"`
	} `json:"addresses"`
}

type moduleSource struct {
	ConfigMap *reference `json:"configMap,omitempty"`
	Directory word       `json:"directory,omitempty"`
	OCI       *struct {
		Reference  word            `json:"reference"`
		PullPolicy word            `json:"pullPolicy,omitempty"`
		Interval   metav1.Duration `json:"interval"`
		PullSecret *reference      `json:"pullSecret,omitempty"`
		CABundle   size            `json:"caBundle,omitempty"`
	} `json:"oci,omitempty"`
}

type configFrom struct {
	ConfigMap *reference `json:"configMap,omitempty"`
	Secret    *reference `json:"secret,omitempty"`
}

type grantView struct {
	Scheme            word       `json:"scheme"`
	Host              word       `json:"host"`
	Port              uint16     `json:"port"`
	PathPrefix        size       `json:"pathPrefix,omitempty"`
	Methods           []word     `json:"methods,omitempty"`
	Reads             size       `json:"reads,omitempty"`
	CIDRs             []word     `json:"cidrs,omitempty"`
	CABundle          size       `json:"caBundle,omitempty"`
	ClientCertificate *reference `json:"clientCertificate,omitempty"`
	Credentials       []word     `json:"credentials,omitempty"`
}

// credentialView is the use of a secret and its keys, never its values.
type credentialView struct {
	Name       word      `json:"name"`
	Secret     reference `json:"secret"`
	PublicKeys []word    `json:"publicKeys,omitempty"`
	Header     *struct {
		Header word `json:"header"`
		Prefix size `json:"prefix,omitempty"`
		Key    word `json:"key,omitempty"`
	} `json:"header,omitempty"`
	Basic *struct {
		UsernameKey word `json:"usernameKey,omitempty"`
		PasswordKey word `json:"passwordKey,omitempty"`
	} `json:"basic,omitempty"`
	Bearer *struct {
		Key word `json:"key,omitempty"`
	} `json:"bearer,omitempty"`
	Query *struct {
		Parameter word `json:"parameter"`
		Key       word `json:"key,omitempty"`
	} `json:"query,omitempty"`
	OAuth2ClientCredentials *struct {
		Token           endpoint `json:"token"`
		ClientIDKey     word     `json:"clientIDKey,omitempty"`
		ClientSecretKey word     `json:"clientSecretKey,omitempty"`
		Scopes          size     `json:"scopes,omitempty"`
	} `json:"oauth2ClientCredentials,omitempty"`
	AWSSigV4 *struct {
		Region             word `json:"region"`
		Service            word `json:"service"`
		AccessKeyIDKey     word `json:"accessKeyIDKey,omitempty"`
		SecretAccessKeyKey word `json:"secretAccessKeyKey,omitempty"`
		SessionTokenKey    word `json:"sessionTokenKey,omitempty"`
	} `json:"awsSigV4,omitempty"`
	Signer *struct {
		Source moduleSource `json:"source"`
		Config size         `json:"config,omitempty"`
		Tokens []endpoint   `json:"tokens,omitempty"`
	} `json:"signer,omitempty"`
	BodyTemplate *struct {
		Method      word `json:"method,omitempty"`
		ContentType word `json:"contentType"`
		Headers     keys `json:"headers,omitempty"`
		Body        size `json:"body"`
	} `json:"bodyTemplate,omitempty"`
	Session *struct {
		Cookie word `json:"cookie,omitempty"`
		Header word `json:"header,omitempty"`
	} `json:"session,omitempty"`
}

type endpoint struct {
	URL      origin `json:"url"`
	CIDRs    []word `json:"cidrs,omitempty"`
	CABundle size   `json:"caBundle,omitempty"`
}

type limits struct {
	Instances        int               `json:"instances"`
	CallsPerInstance int               `json:"callsPerInstance"`
	Memory           resource.Quantity `json:"memory"`
	Module           resource.Quantity `json:"module"`
	Compile          struct {
		Memory resource.Quantity `json:"memory"`
		CPU    metav1.Duration   `json:"cpu"`
		Wall   metav1.Duration   `json:"wall"`
		Output resource.Quantity `json:"output"`
	} `json:"compile"`
	LogLinesPerSecond int               `json:"logLinesPerSecond"`
	LogBytesPerSecond resource.Quantity `json:"logBytesPerSecond"`
	EventsPerSecond   int               `json:"eventsPerSecond"`
}

type rollout struct {
	Probe         word            `json:"probe"`
	Shadow        word            `json:"shadow"`
	Observe       word            `json:"observe"`
	ShadowSamples int             `json:"shadowSamples"`
	ObservePeriod metav1.Duration `json:"observePeriod"`
	ErrorBudget   struct {
		Failures *int `json:"failures,omitempty"`
		Percent  *int `json:"percent,omitempty"`
	} `json:"errorBudget"`
}
