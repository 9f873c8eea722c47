package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managerView is the answering manager.
type managerView struct {
	Version   word        `json:"version"`
	Host      word        `json:"host"`
	Leads     bool        `json:"leads"`
	Holder    word        `json:"holder,omitempty"`
	Lease     word        `json:"lease,omitempty"`
	Started   metav1.Time `json:"started"`
	Namespace word        `json:"namespace"`
}

// managerStatus is a v1alpha1.Status without messages.
type managerStatus struct {
	Time      metav1.Time    `json:"time"`
	Manager   managerView    `json:"manager"`
	Providers []providerView `json:"providers"`
	Nobodys   []explanation  `json:"nobodys,omitempty"`
}

type providerView struct {
	Name word `json:"name"`
	providerStatus
	Loops []struct {
		Name    word `json:"name"`
		Running bool `json:"running"`
	} `json:"loops,omitempty"`
	Ops struct {
		Running    int `json:"running"`
		Background int `json:"background"`
		BackedOff  int `json:"backedOff"`
	} `json:"ops"`
	Latest *op `json:"latest,omitempty"`
	Hosts  []struct {
		Host    word        `json:"host"`
		Breaker word        `json:"breaker"`
		Until   metav1.Time `json:"until,omitzero"`
	} `json:"hosts,omitempty"`
	Brake *struct {
		Engaged bool `json:"engaged"`
		Gone    int  `json:"gone"`
		Nodes   int  `json:"nodes"`
		Permits int  `json:"permits"`
	} `json:"brake,omitempty"`
	Services *objectCount  `json:"services,omitempty"`
	Nodes    *objectCount  `json:"nodes,omitempty"`
	Routes   *objectCount  `json:"routes,omitempty"`
	Volumes  *objectCount  `json:"volumes,omitempty"`
	Stuck    []explanation `json:"stuck,omitempty"`
}

type objectCount struct {
	Total int `json:"total"`
	Stuck int `json:"stuck"`
}

// explanation is the explanation of an object, without sentences.
type explanation struct {
	Object   reference   `json:"object"`
	Provider word        `json:"provider,omitempty"`
	State    word        `json:"state"`
	Cause    word        `json:"cause,omitempty"`
	Since    metav1.Time `json:"since,omitzero"`
	Asked    *op         `json:"asked,omitempty"`
	Also     []struct {
		Cause word `json:"cause"`
	} `json:"also,omitempty"`
}

// op is a request to a module.
type op struct {
	Object     *reference      `json:"object,omitempty"`
	Name       word            `json:"name"`
	At         metav1.Time     `json:"at"`
	Took       metav1.Duration `json:"took"`
	Running    bool            `json:"running,omitempty"`
	Code       word            `json:"code,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	RetryAfter metav1.Duration `json:"retryAfter,omitzero"`
}

// calls to the clouds.
type calls struct {
	Time    metav1.Time `json:"time"`
	Manager managerView `json:"manager"`
	Latest  []struct {
		callKind
		Number        int64            `json:"number"`
		At            metav1.MicroTime `json:"at"`
		Took          metav1.Duration  `json:"took"`
		Object        words            `json:"object,omitempty"`
		Generation    int64            `json:"generation"`
		Status        int              `json:"status,omitempty"`
		SentBytes     int              `json:"sentBytes"`
		ReceivedBytes int              `json:"receivedBytes"`
	} `json:"latest"`
	Counts []struct {
		callKind
		Calls   int64           `json:"calls"`
		Total   metav1.Duration `json:"total"`
		Longest metav1.Duration `json:"longest"`
		Last    metav1.Time     `json:"last"`
	} `json:"counts"`
}

type callKind struct {
	Provider word `json:"provider"`
	Op       word `json:"op"`
	Host     word `json:"host"`
	Method   word `json:"method"`
	Path     word `json:"path"`
	Result   word `json:"result"`
}

// reachabilityView is a v1alpha1.Reachability without messages.
type reachabilityView struct {
	Time    metav1.Time `json:"time"`
	Manager managerView `json:"manager"`
	Hosts   []struct {
		Provider        word            `json:"provider"`
		Host            word            `json:"host"`
		Result          word            `json:"result"`
		Address         word            `json:"address,omitempty"`
		TLS             words           `json:"tls,omitempty"`
		CertificateEnds metav1.Time     `json:"certificateEnds,omitzero"`
		Took            metav1.Duration `json:"took"`
	} `json:"hosts"`
}
