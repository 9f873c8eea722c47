package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reachability says which granted hosts this manager can connect to now, from where it
// is, by the rules that requests to them are sent by. No request is sent for it. A
// manager finds it out at most once in ten seconds, and answers others with what it
// knows.
type Reachability struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when it was found out, by the manager's clock.
	Time metav1.Time `json:"time"`
	// Manager is who connected; its Holder is left out.
	Manager Manager `json:"manager"`
	// Hosts are those of all grants, in the order of the configuration.
	Hosts []HostReach `json:"hosts"`
}

// HostReach says how far a connection to a host came.
type HostReach struct {
	Provider string `json:"provider"`
	// Host is HOST:PORT of the grant, or MoreHosts.
	Host string `json:"host"`
	// Result is one of the words below; Message is why, where it is not Reached.
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
	// Address is that of the connection, as ADDRESS:PORT.
	Address string `json:"address,omitempty"`
	// TLS is its version, such as "TLS 1.3".
	TLS string `json:"tls,omitempty"`
	// CertificateEnds is when the host's certificate ends.
	CertificateEnds metav1.Time     `json:"certificateEnds,omitzero"`
	Took            metav1.Duration `json:"took"`
}

// MoreHosts stands for the hosts of a provider that were left out.
const MoreHosts = "*"

// How far a connection came.
const (
	// HostReached: the host took it, and for https it proved who it is.
	HostReached = "Reached"
	// HostNotResolved: the name has no address, or the resolver did not say one.
	HostNotResolved = "NotResolved"
	// HostAddressRefused: the address is none that the grant allows.
	HostAddressRefused = "AddressRefused"
	// HostNotConnected: nobody took it.
	HostNotConnected = "NotConnected"
	// HostTLSFailed: there is no agreement about who is at its ends.
	HostTLSFailed = "TLSFailed"
	// HostNotAsked: a wildcard, or one more than MaxHosts of the provider.
	HostNotAsked = "NotAsked"
)
