package main

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contents are all documents of a bundle. A field of an object is included only
// if a type here has a field with its JSON name, and a text only as a word.
//
// Invariant V6 (host/SECURITY.md): TestBundleTypesAreHarmless names each text,
// with the reason why it is no secret.
type contents struct {
	Versions       *versions         `file:"versions.json" about:"the versions of ccmctl and the API server"`
	Lease          *lease            `file:"lease.json" about:"who leads, as the API server knows it"`
	Configuration  *configuration    `file:"configuration.json" about:"the HostConfiguration of the ConfigMap cloud-controller-manager, with its defaults: the larger part of the chart's values"`
	CloudProviders []cloudProvider   `file:"cloudproviders.json" about:"the CloudProviders, with their defaults"`
	Providers      []providerObject  `file:"providers.json" about:"the status of each provider, as its ConfigMap has it"`
	Workloads      []workload        `file:"workloads.json" about:"the DaemonSet or Deployment of the manager: the rest of the chart's values"`
	Pods           []pod             `file:"pods.json" about:"the Pods of the manager"`
	Nodes          []node            `file:"nodes.json" about:"the Nodes: taints, provider IDs, versions, conditions"`
	Services       []service         `file:"services.json" about:"the Services of type LoadBalancer, or with a load balancer"`
	Events         []event           `file:"events.json" about:"the Events that the manager and its loops told, the oldest first"`
	Findings       []finding         `file:"findings.json" about:"what ccmctl check finds"`
	Status         *managerStatus    `file:"status.json" about:"what the manager says of itself and its providers"`
	Why            []explanation     `file:"why.json" about:"why each stuck object is stuck, with the op that was asked last"`
	Calls          *calls            `file:"calls.json" about:"the latest calls to the cloud; ids in paths are *"`
	Reachability   *reachabilityView `file:"reachability.json" about:"which granted hosts the manager can connect to"`
}

type versions struct {
	Ccmctl     word `json:"ccmctl"`
	Kubernetes word `json:"kubernetes"`
}

type lease struct {
	HolderIdentity       word              `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds int32             `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            *metav1.MicroTime `json:"renewTime,omitempty"`
	LeaseTransitions     int32             `json:"leaseTransitions,omitempty"`
}

// metadata is common to all objects.
type metadata struct {
	Namespace         word         `json:"namespace,omitempty"`
	Name              word         `json:"name"`
	Generation        int64        `json:"generation,omitempty"`
	CreationTimestamp metav1.Time  `json:"creationTimestamp,omitzero"`
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`
	Finalizers        []word       `json:"finalizers,omitempty"`
	Annotations       keys         `json:"annotations,omitempty"`
	Labels            labels       `json:"labels,omitzero"`
}

// labels with values that programs write.
type labels struct {
	Chart        word `json:"helm.sh/chart,omitempty"`
	Release      word `json:"app.kubernetes.io/version,omitempty"`
	Provider     word `json:"wasm-ccm.dev/provider,omitempty"`
	LoadBalancer word `json:"wasm-ccm.dev/load-balancer-provider,omitempty"`
	Phase        word `json:"wasm-ccm.dev/phase,omitempty"`
	Reason       word `json:"wasm-ccm.dev/reason,omitempty"`
	Region       word `json:"topology.kubernetes.io/region,omitempty"`
	Zone         word `json:"topology.kubernetes.io/zone,omitempty"`
	InstanceType word `json:"node.kubernetes.io/instance-type,omitempty"`
	Excluded     word `json:"node.kubernetes.io/exclude-from-external-load-balancers,omitempty"`
}

type condition struct {
	Type               word        `json:"type"`
	Status             word        `json:"status"`
	Reason             word        `json:"reason,omitempty"`
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
}

// reference is an object, and perhaps one of its keys.
type reference struct {
	Kind      word `json:"kind,omitempty"`
	Namespace word `json:"namespace,omitempty"`
	Name      word `json:"name"`
	Key       word `json:"key,omitempty"`
}

// moduleView is an offered or serving module.
type moduleView struct {
	Name         word `json:"name,omitempty"`
	Version      word `json:"version,omitempty"`
	Digest       word `json:"digest,omitempty"`
	ConfigDigest word `json:"configDigest,omitempty"`
	ImageDigest  word `json:"imageDigest,omitempty"`
	Engine       word `json:"engine,omitempty"`
}

// providerStatus is the status of a CloudProvider, or in the ConfigMap of a provider.
type providerStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	Phase              word        `json:"phase,omitempty"`
	Reason             word        `json:"reason,omitempty"`
	Since              metav1.Time `json:"since,omitzero"`
	Generation         int64       `json:"generation,omitempty"`
	Paused             bool        `json:"paused,omitempty"`
	Offered            *moduleView `json:"offered,omitempty"`
	Serving            *moduleView `json:"serving,omitempty"`
	Candidate          *moduleView `json:"candidate,omitempty"`
	Good               *moduleView `json:"good,omitempty"`
	Manager            word        `json:"manager,omitempty"`
	Conditions         []condition `json:"conditions,omitempty"`
}

// providerObject is the ConfigMap of a provider.
type providerObject struct {
	Metadata metadata       `json:"metadata"`
	Status   providerStatus `json:"status,omitzero"`
}

type workload struct {
	Kind     word     `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Replicas *int32 `json:"replicas,omitempty"`
		Template struct {
			Metadata metadata `json:"metadata"`
			Spec     podSpec  `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration     int64 `json:"observedGeneration"`
		Replicas               int32 `json:"replicas,omitempty"`
		ReadyReplicas          int32 `json:"readyReplicas,omitempty"`
		UpdatedReplicas        int32 `json:"updatedReplicas,omitempty"`
		DesiredNumberScheduled int32 `json:"desiredNumberScheduled,omitempty"`
		UpdatedNumberScheduled int32 `json:"updatedNumberScheduled,omitempty"`
		NumberReady            int32 `json:"numberReady,omitempty"`
	} `json:"status"`
}

type podSpec struct {
	NodeName           word        `json:"nodeName,omitempty"`
	HostNetwork        bool        `json:"hostNetwork,omitempty"`
	DNSPolicy          word        `json:"dnsPolicy,omitempty"`
	PriorityClassName  word        `json:"priorityClassName,omitempty"`
	ServiceAccountName word        `json:"serviceAccountName,omitempty"`
	ImagePullSecrets   []reference `json:"imagePullSecrets,omitempty"`
	Tolerations        []taint     `json:"tolerations,omitempty"`
	Affinity           struct {
		NodeAffinity struct {
			Required struct {
				Terms []struct {
					Expressions []struct {
						Key      word `json:"key"`
						Operator word `json:"operator"`
						Values   size `json:"values,omitempty"`
					} `json:"matchExpressions"`
				} `json:"nodeSelectorTerms,omitempty"`
			} `json:"requiredDuringSchedulingIgnoredDuringExecution,omitzero"`
		} `json:"nodeAffinity,omitzero"`
	} `json:"affinity"`
	Containers []container `json:"containers"`
	Volumes    []struct {
		Name     word `json:"name"`
		EmptyDir *struct {
			SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
		} `json:"emptyDir,omitempty"`
		ConfigMap *reference `json:"configMap,omitempty"`
	} `json:"volumes,omitempty"`
}

// taint is a taint or a toleration, without its value.
type taint struct {
	Key       word         `json:"key,omitempty"`
	Operator  word         `json:"operator,omitempty"`
	Effect    word         `json:"effect,omitempty"`
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

type container struct {
	Name      word        `json:"name"`
	Image     word        `json:"image"`
	Args      flags       `json:"args,omitempty"`
	Env       []reference `json:"env,omitempty"`
	Resources struct {
		Limits   resources `json:"limits,omitzero"`
		Requests resources `json:"requests,omitzero"`
	} `json:"resources"`
}

type resources struct {
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
	Status   struct {
		Phase             word        `json:"phase"`
		Reason            word        `json:"reason,omitempty"`
		HostIP            word        `json:"hostIP,omitempty"`
		PodIP             word        `json:"podIP,omitempty"`
		StartTime         metav1.Time `json:"startTime,omitzero"`
		Conditions        []condition `json:"conditions,omitempty"`
		ContainerStatuses []struct {
			Name         word           `json:"name"`
			Image        word           `json:"image"`
			ImageID      word           `json:"imageID"`
			Ready        bool           `json:"ready"`
			RestartCount int32          `json:"restartCount"`
			State        containerState `json:"state"`
			LastState    containerState `json:"lastState"`
		} `json:"containerStatuses,omitempty"`
	} `json:"status"`
}

type containerState struct {
	Waiting *struct {
		Reason word `json:"reason"`
	} `json:"waiting,omitempty"`
	Running *struct {
		StartedAt metav1.Time `json:"startedAt"`
	} `json:"running,omitempty"`
	Terminated *struct {
		ExitCode   int32       `json:"exitCode"`
		Signal     int32       `json:"signal,omitempty"`
		Reason     word        `json:"reason"`
		StartedAt  metav1.Time `json:"startedAt"`
		FinishedAt metav1.Time `json:"finishedAt"`
	} `json:"terminated,omitempty"`
}

type node struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		ProviderID    word    `json:"providerID,omitempty"`
		PodCIDRs      []word  `json:"podCIDRs,omitempty"`
		Unschedulable bool    `json:"unschedulable,omitempty"`
		Taints        []taint `json:"taints,omitempty"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Type    word `json:"type"`
			Address word `json:"address"`
		} `json:"addresses,omitempty"`
		Conditions []condition `json:"conditions,omitempty"`
		NodeInfo   struct {
			Kubelet word `json:"kubeletVersion"`
			Runtime word `json:"containerRuntimeVersion"`
			Kernel  word `json:"kernelVersion"`
			OS      word `json:"operatingSystem"`
			CPU     word `json:"architecture"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

type service struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Type                  word   `json:"type"`
		Class                 word   `json:"loadBalancerClass,omitempty"`
		IPFamilies            []word `json:"ipFamilies,omitempty"`
		ExternalTrafficPolicy word   `json:"externalTrafficPolicy,omitempty"`
		AllocateNodePorts     *bool  `json:"allocateLoadBalancerNodePorts,omitempty"`
		HealthCheckNodePort   int32  `json:"healthCheckNodePort,omitempty"`
		LoadBalancerIP        word   `json:"loadBalancerIP,omitempty"`
		SourceRanges          size   `json:"loadBalancerSourceRanges,omitempty"`
		Ports                 []struct {
			Protocol word  `json:"protocol"`
			Port     int32 `json:"port"`
			NodePort int32 `json:"nodePort,omitempty"`
		} `json:"ports"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []struct {
				IP       word `json:"ip,omitempty"`
				IPMode   word `json:"ipMode,omitempty"`
				Hostname word `json:"hostname,omitempty"`
			} `json:"ingress,omitempty"`
		} `json:"loadBalancer"`
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status"`
}

// event is an Event without its message.
type event struct {
	Type           word        `json:"type"`
	Reason         word        `json:"reason"`
	Count          int32       `json:"count,omitempty"`
	FirstTimestamp metav1.Time `json:"firstTimestamp,omitzero"`
	LastTimestamp  metav1.Time `json:"lastTimestamp,omitzero"`
	InvolvedObject reference   `json:"involvedObject"`
	Source         struct {
		Component word `json:"component"`
	} `json:"source"`
}

// finding is a finding of ccmctl check, without its sentences.
type finding struct {
	Severity word  `json:"severity"`
	Reason   word  `json:"reason"`
	Where    words `json:"where"`
}
