package report

// Causes that ccmctl check alone finds: in the cluster, in the installation, in the
// manager's configuration.
const (
	ProviderIDInvalid        = "ProviderIDInvalid"
	ClusterCIDRMissing       = "ClusterCIDRMissing"
	WebhookBlocks            = "WebhookBlocks"
	WebhookInTheWay          = "WebhookInTheWay"
	PolicyInTheWay           = "PolicyInTheWay"
	HostUnreachable          = "HostUnreachable"
	HostNotResolved          = "HostNotResolved"
	HostAddressRefused       = "HostAddressRefused"
	HostTLSFailed            = "HostTLSFailed"
	CertificateEnds          = "CertificateEnds"
	ClockSkew                = "ClockSkew"
	ClockAhead               = "ClockAhead"
	APIServerOld             = "APIServerOld"
	ManagerSilent            = "ManagerSilent"
	VersionsDiffer           = "VersionsDiffer"
	OfferRefused             = "OfferRefused"
	CRDMissing               = "CRDMissing"
	CRDOld                   = "CRDOld"
	CloudProviderInvalid     = "CloudProviderInvalid"
	InTreeCloudProvider      = "InTreeCloudProvider"
	TwoManagers              = "TwoManagers"
	NoLeader                 = "NoLeader"
	ForeignLeader            = "ForeignLeader"
	NotInstalled             = "NotInstalled"
	TolerationMissing        = "TolerationMissing"
	NoLeaderElection         = "NoLeaderElection"
	SecurePortOff            = "SecurePortOff"
	NoReplicas               = "NoReplicas"
	NoHostNetwork            = "NoHostNetwork"
	ClusterDNS               = "ClusterDNS"
	NoPriorityClass          = "NoPriorityClass"
	PriorityClassMissing     = "PriorityClassMissing"
	NoPods                   = "NoPods"
	NoNodeMatches            = "NoNodeMatches"
	PodsMissing              = "PodsMissing"
	PodsAwaited              = "PodsAwaited"
	PodNotStarted            = "PodNotStarted"
	PodNotRunning            = "PodNotRunning"
	PodEnded                 = "PodEnded"
	PodNotScheduled          = "PodNotScheduled"
	PodNotReady              = "PodNotReady"
	PortTaken                = "PortTaken"
	ConfigurationMissing     = "ConfigurationMissing"
	HostConfigurationInvalid = "HostConfigurationInvalid"
	ConfigMapMissing         = "ConfigMapMissing"
	SecretMissing            = "SecretMissing"
	KeyMissing               = "KeyMissing"
	NotUsable                = "NotUsable"
	RightMissing             = "RightMissing"
	ServiceAccountMissing    = "ServiceAccountMissing"
)

const (
	describe = "kubectl -n {namespace} describe pod {name}"
	workload = "kubectl -n {manager} describe daemonset,deployment -l app.kubernetes.io/name=cloud-controller-manager; kubectl -n {manager} get resourcequota"
	webhooks = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
	again    = "install this release again"
)

var findings = []Cause{
	{NodeNotInitialized, "a Node keeps its taint, so nothing runs on it", Step{"see why", "ccmctl why node {name}"}, Tell{}},
	{ProviderIDInvalid, "a Node's providerID is not SCHEME://ID", Step{"remove --provider-id of its kubelet, delete the Node, and let the kubelet register again", "kubectl delete node {name}"}, Tell{}},
	{ClusterCIDRMissing, "routes are on without --cluster-cidr, so the manager ends", Step{What: "set routes.clusterCIDR in the values, or routes.enabled: false"}, Tell{}},
	{WebhookBlocks, "an admission webhook that nothing answers refuses the manager's writes", Step{"start its Pods; or take the manager's objects out of its rules (objectSelector, matchConditions), or set failurePolicy: Ignore", webhooks}, Tell{}},
	{WebhookInTheWay, "an admission webhook sees the manager's writes: while it does not answer, they are refused; if it needs an initialised Node, a cluster that was off does not start", Step{"take the manager's objects out of its rules (objectSelector, matchConditions), or set failurePolicy: Ignore", webhooks}, Tell{Warning: true}},
	{PolicyInTheWay, "an admission policy decides about the manager's writes", Step{"let it pass the manager's accounts (matchConditions on request.userInfo.username), or let its binding Warn and Audit", "kubectl get validatingadmissionpolicybindings"}, Tell{Warning: true}},
	{HostUnreachable, "the manager gets no connection to a host of the cloud, or no answer", Step{"look at the host, at firewalls and NetworkPolicies between it and the manager's node, and at the port of the grant; proxies of the environment are not used", whyItself}, Tell{}},
	{HostNotResolved, "the manager finds no address of a host of the cloud", Step{What: "correct the host of the grant, or the DNS of the manager's Pod (dnsPolicy, hostAliases)"}, Tell{}},
	{HostAddressRefused, "the grant does not allow the address of a host of the cloud", Step{What: "if the address is the cloud's, put its network into cidrs of the grant"}, Tell{}},
	{HostTLSFailed, "TLS with a host of the cloud failed", Step{What: "look at its certificate: its end, its authority (caBundle of the grant), its names; and at the port of the grant and the clock of the manager's node"}, Tell{}},
	{CertificateEnds, "the certificate of a host of the cloud ends soon", Step{What: "have it renewed; if another authority signs it then, put that into caBundle of the grant"}, Tell{Warning: true}},
	{ClockSkew, "this machine's clock differs from the API server's", Step{What: "synchronise it (chrony, systemd-timesyncd): tokens and certificates depend on it"}, Tell{Warning: true}},
	{ClockAhead, "a machine's clock is ahead: it renewed its Lease in the future", Step{What: "synchronise it (chrony, systemd-timesyncd): requests to clouds are signed by time, and a dead node would seem to live"}, Tell{}},
	{APIServerOld, "the API server has no ServiceCIDR objects, so a provider may answer with the address of a Service", Step{What: "upgrade it, or put the Service CIDR into addresses.deny of each provider"}, Tell{Warning: true}},
	{ManagerSilent, "no manager answers on its secure port: whether providers serve, and reach their clouds, is not checked", Step{"look at the Pods and their logs", logs}, Tell{}},
	{VersionsDiffer, "ccmctl and the manager are of different releases", Step{What: "use the ccmctl of the manager's release"}, Tell{Warning: true}},
	{OfferRefused, "what is offered does not serve", Step{"see why", whyItself}, Tell{}},
	{CRDMissing, "cloudProviders.enabled is true, and the CustomResourceDefinition is missing", Step{again, upgrade}, Tell{}},
	{CRDOld, "the CustomResourceDefinition is older than this ccmctl: fields that it does not know are not checked, and lost from a status", Step{again + "; without Helm", "kubectl apply -f deploy/chart/files/cloudproviders.yaml"}, Tell{Warning: true}},
	{CloudProviderInvalid, "a CloudProvider is invalid", Step{"correct it; its status says the same", "kubectl edit cloudprovider {name}"}, Tell{}},
	{InTreeCloudProvider, "kube-controller-manager runs cloud loops, too, and both would write", Step{What: "set --cloud-provider=external there, or remove the flag"}, Tell{}},
	{TwoManagers, "two managers run the same loops: each removes what the other has made", Step{What: "stop one of them; --manager-namespace chooses the one that is checked"}, Tell{}},
	{NoLeader, "no manager leads", Step{"their logs say why", logs}, Tell{}},
	{ForeignLeader, "the holder of the Lease is no Pod of this manager, which waits for ever", Step{What: "find what runs there (systemd, a static Pod, another chart), and stop it"}, Tell{}},
	{NotInstalled, "there is no DaemonSet and no Deployment cloud-controller-manager, so only the cluster is checked", Step{What: "install the chart, check a configuration before (-f), or name the namespace (--manager-namespace)"}, Tell{Warning: true}},
	{TolerationMissing, "the manager does not tolerate a taint, so it cannot start, or stay, on a Node that waits for it", Step{again + ", and let nothing change the Pods", upgrade}, Tell{}},
	{NoLeaderElection, "several Pods run with --leader-elect=false, and all run the control loops at once", Step{What: "remove the flag, or run one Pod"}, Tell{}},
	{SecurePortOff, "--secure-port is 0: there is no liveness probe, no metrics and no ccmctl status", Step{What: "set ports.secure in the values"}, Tell{}},
	{NoReplicas, "the Deployment has 0 replicas", Step{"give it some", "kubectl -n {manager} scale deployment cloud-controller-manager --replicas=2"}, Tell{}},
	{NoHostNetwork, "the manager is not on the host network: it waits for the pod network, and many of these wait for the manager", Step{What: "set hostNetwork: true in the values, unless the pod network needs no initialised Node"}, Tell{Warning: true}},
	{ClusterDNS, "the manager asks the cluster's DNS, which does not run before a Node is initialised", Step{What: "use dnsPolicy Default, as the chart does"}, Tell{Warning: true}},
	{NoPriorityClass, "the manager has no priorityClassName, so its Pods are the first to be evicted", Step{What: "set priorityClassName: system-node-critical in the values"}, Tell{Warning: true}},
	{PriorityClassMissing, "the PriorityClass does not exist, so the API server refuses the Pods that name it", Step{What: "create it, or set priorityClassName: system-node-critical in the values"}, Tell{}},
	{NoPods, "the manager has no Pod", Step{"see that kube-controller-manager runs, and the labels of the Pods", "kubectl -n {manager} get pods --show-labels"}, Tell{}},
	{NoNodeMatches, "the manager has 0 of 0 Pods: no Node matches its nodeSelector, its affinity and its tolerations", Step{What: "label the nodes on which it is to run, or set nodeSelector in the values"}, Tell{}},
	{PodsMissing, "Pods of the manager cannot be made", Step{"correct what the message names", workload}, Tell{}},
	{PodsAwaited, "Pods of the manager are missing, and nothing says why yet", Step{"check again; then see why", workload}, Tell{Warning: true}},
	{PodNotStarted, "the manager's container has not started", Step{"see that the node gets what the message names, and can start it", describe}, Tell{}},
	{PodNotRunning, "the manager has ended, and does not run", Step{"its log says why", "kubectl -n {namespace} logs {name} --previous; " + describe}, Tell{}},
	{PodEnded, "the manager has just ended", Step{"its log says why", "kubectl -n {namespace} logs {name}; " + describe}, Tell{}},
	{PodNotScheduled, "no node takes a Pod of the manager", Step{"see why", describe}, Tell{}},
	{PodNotReady, "a Pod of the manager is not ready: no provider serves in it, or its node does not answer", Step{"see why", "ccmctl status; kubectl -n {namespace} logs {name}"}, Tell{}},
	{PortTaken, "another Pod has a port of the host that the manager needs", Step{What: "stop it, or set other ports in the values (ports.secure, ports.probes)"}, Tell{}},
	{ConfigurationMissing, "the manager's ConfigMap has no key config.yaml", Step{again, upgrade}, Tell{}},
	{HostConfigurationInvalid, "the HostConfiguration is invalid", Step{What: "correct it there (a ConfigMap by the chart's values): a manager that runs keeps what it had, and one that starts ends"}, Tell{}},
	{ConfigMapMissing, "a ConfigMap that a provider names does not exist", Step{"create it, with the module as NAME.wasm or the configuration as config.yaml", "kubectl -n {namespace} create configmap {name} --from-file=KEY=FILE"}, Tell{}},
	{SecretMissing, "a Secret that a provider names does not exist", Step{"create it", "kubectl -n {namespace} create secret generic {name} --from-literal=KEY=VALUE"}, Tell{}},
	{KeyMissing, "an object lacks the key that a provider names", Step{What: "add the key, or have the provider name another one"}, Tell{}},
	{NotUsable, "a provider cannot use an object that it names", Step{What: "correct what the message names; the manager takes the change by itself"}, Tell{}},
	{RightMissing, "an account lacks a right that the configuration needs", Step{again, upgrade}, Tell{}},
	{ServiceAccountMissing, "a ServiceAccount does not exist, and the manager makes none", Step{again, upgrade}, Tell{}},
}
