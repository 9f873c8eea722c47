package main

// documents are the files of a bundle with the fields of objects, and those fields:
//
//	name          a text in one word
//	name:kind     number (also a truth value), measure (a time, a duration, a quantity), or
//	              what harmless.go makes of it: words, keys, size, flag, origin
//	name:fields   an object with fields of that name in commonFields; without a name
//	              they stand beside the others
//	name{...}     an object with these fields
//
// A list has a field's kind for each of its entries. All other fields are left out.
//
// Invariant V6 (host/SECURITY.md): TestBundleFieldsAreHarmless names each text, with the
// reason why it is no secret.
var documents = []struct{ file, about, fields string }{
	{"versions.json", "the versions of ccmctl and the API server", `ccmctl kubernetes`},
	{"lease.json", "who leads, as the API server knows it", `holderIdentity leaseDurationSeconds:number acquireTime:measure renewTime:measure leaseTransitions:number`},
	{"configuration.json", "the HostConfiguration of the ConfigMap cloud-controller-manager, with its defaults: the larger part of the chart's values", `
		providers:provider
		deletionBrake{percent:number nodes:number period:measure settle:measure}
		cloudProviders{enabled:number}
		tracing{endpoint samplingRatePerMillion:number}`},
	{"cloudproviders.json", "the CloudProviders, with their defaults", `metadata:metadata spec:provider mistaken:number status:providerStatus`},
	{"providers.json", "the status of each provider, as its ConfigMap has it", `metadata:metadata status:providerStatus`},
	{"workloads.json", "the DaemonSet or Deployment of the manager: the rest of the chart's values", `
		kind metadata:metadata
		spec{replicas:number template{metadata:metadata spec:podSpec}}
		status{observedGeneration:number replicas:number readyReplicas:number updatedReplicas:number
			desiredNumberScheduled:number updatedNumberScheduled:number numberReady:number}`},
	{"pods.json", "the Pods of the manager", `
		metadata:metadata spec:podSpec
		status{phase reason hostIP podIP startTime:measure conditions:condition
			containerStatuses{name image imageID ready:number restartCount:number state:containerState lastState:containerState}}`},
	{"nodes.json", "the Nodes: taints, provider IDs, versions, conditions", `
		metadata:metadata
		spec{providerID podCIDRs unschedulable:number taints:taint}
		status{addresses{type address} conditions:condition
			nodeInfo{kubeletVersion containerRuntimeVersion kernelVersion operatingSystem architecture}}`},
	{"services.json", "the Services of type LoadBalancer, or with a load balancer", `
		metadata:metadata
		spec{type loadBalancerClass ipFamilies externalTrafficPolicy allocateLoadBalancerNodePorts:number healthCheckNodePort:number
			loadBalancerIP loadBalancerSourceRanges:size ports{protocol port:number nodePort:number}}
		status{loadBalancer{ingress{ip ipMode hostname}} conditions:condition}`},
	{"events.json", "the Events that the manager and its loops told, the oldest first", `
		type reason count:number firstTimestamp:measure lastTimestamp:measure involvedObject:reference source{component}`},
	{"findings.json", "what ccmctl check finds", `severity reason where:words`},
	{"status.json", "what the manager says of itself and its providers", `
		time:measure manager:managerView nobodys:explanation
		providers{name :providerStatus latest:op stuck:explanation
			loops{name running:number} ops{running:number background:number backedOff:number}
			hosts{host breaker until:measure} brake{engaged:number gone:number nodes:number permits:number}
			services:objectCount nodes:objectCount routes:objectCount volumes:objectCount}`},
	{"why.json", "why each stuck object is stuck, with the op that was asked last", `:explanation`},
	{"calls.json", "the latest calls to the cloud; ids in paths are *", `
		time:measure manager:managerView
		latest{:callKind number:number at:measure took:measure object:words generation:number status:number sentBytes:number receivedBytes:number}
		counts{:callKind calls:number total:measure longest:measure last:measure}`},
	{"reachability.json", "which granted hosts the manager can connect to", `
		time:measure manager:managerView
		hosts{provider host result address tls:words certificateEnds:measure took:measure}`},
}

// commonFields stand in several places of the documents. Paths, prefixes and certificates
// of a configuration may contain a secret, and PEM is free text: they are left out, or
// replaced by their sizes.
var commonFields = map[string]string{
	"metadata": `namespace name generation:number creationTimestamp:measure deletionTimestamp:measure finalizers annotations:keys labels:labels`,
	// Labels whose values programs write.
	"labels": `helm.sh/chart app.kubernetes.io/version wasm-ccm.dev/provider wasm-ccm.dev/load-balancer-provider wasm-ccm.dev/phase wasm-ccm.dev/reason
		topology.kubernetes.io/region topology.kubernetes.io/zone node.kubernetes.io/instance-type node.kubernetes.io/exclude-from-external-load-balancers`,
	"condition": `type status reason observedGeneration:number lastTransitionTime:measure`,
	// An object, and perhaps one of its keys.
	"reference": `kind namespace name key`,
	// A taint or a toleration, without its value.
	"taint": `key operator effect timeAdded:measure`,
	"podSpec": `nodeName hostNetwork:number dnsPolicy priorityClassName serviceAccountName imagePullSecrets:reference tolerations:taint
		affinity{nodeAffinity{requiredDuringSchedulingIgnoredDuringExecution{nodeSelectorTerms{matchExpressions{key operator values:size}}}}}
		containers{name image args:flag env:reference resources{limits:resources requests:resources}}
		volumes{name emptyDir{sizeLimit:measure} configMap:reference}`,
	"resources": `cpu:measure memory:measure`,
	"containerState": `waiting{reason} running{startedAt:measure}
		terminated{exitCode:number signal:number reason startedAt:measure finishedAt:measure}`,

	"provider": `name source:moduleSource configFrom{configMap:reference secret:reference} store engine capabilities
		grants:grant credentials:credential limits:limits
		kube{nodes:number services endpointSlices configMaps:reference secrets:reference annotations labels}
		requests{perSecond:number burst:number concurrent:number timeout:measure responseBytes:measure}
		ops{timeout:measure timeouts:keys foreground:measure}
		rollout{probe shadow observe shadowSamples:number observePeriod:measure errorBudget{failures:number percent:number}}
		provenance{digests publicKeys:size}
		routing{nodes{schemes ask:number} services{default:number classes} volumes{drivers schemes}}
		addresses{allow deny}`,
	"moduleSource": `configMap:reference directory oci{reference pullPolicy interval:measure pullSecret:reference caBundle:size}`,
	"grant":        `scheme host port:number pathPrefix:size methods reads:size cidrs caBundle:size clientCertificate:reference credentials`,
	// The use of a secret and its keys, never its values.
	"credential": `name secret:reference publicKeys
		header{header prefix:size key}
		basic{usernameKey passwordKey}
		bearer{key}
		query{parameter key}
		oauth2ClientCredentials{token:endpoint clientIDKey clientSecretKey scopes:size}
		awsSigV4{region service accessKeyIDKey secretAccessKeyKey sessionTokenKey}
		signer{source:moduleSource config:size tokens:endpoint}
		bodyTemplate{method contentType headers:keys body:size}
		session{cookie header}`,
	"endpoint": `url:origin cidrs caBundle:size`,
	"limits": `instances:number callsPerInstance:number memory:measure module:measure
		compile{memory:measure cpu:measure wall:measure output:measure}
		logLinesPerSecond:number logBytesPerSecond:measure eventsPerSecond:number`,

	// The status of a CloudProvider, in the ConfigMap of a provider, or in a manager's answer.
	"providerStatus": `observedGeneration:number phase reason since:measure generation:number paused:number manager conditions:condition
		offered:moduleView serving:moduleView candidate:moduleView good:moduleView`,
	"moduleView":  `name version digest configDigest imageDigest engine`,
	"managerView": `version host leads:number holder lease started:measure namespace`,
	"objectCount": `total:number stuck:number`,
	"explanation": `object:reference provider state cause since:measure asked:op also{cause}`,
	"op":          `object:reference name at:measure took:measure running:number code generation:number retryAfter:measure`,
	"callKind":    `provider op host method path result`,
}
