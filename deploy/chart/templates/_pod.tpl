{{- define "ccm.template" -}}
metadata:
  labels: {{- include "ccm.selector" . | nindent 4 }}
  {{- $annotations := .Values.podAnnotations }}
  {{- if .Values.cloudProviders.enabled }}
  {{- /* It takes effect when the manager starts, so a change of it replaces the pods. */}}
  {{- $annotations = merge (dict "wasm-ccm.dev/cloud-providers" "enabled") $annotations }}
  {{- end }}
  {{- with $annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ccm.name" . }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if .Values.hostNetwork }}
  # It runs before there is a pod network: a node gets one only after the manager has initialised it.
  hostNetwork: true
  dnsPolicy: Default
  {{- end }}
  {{- include "ccm.affinity" . | nindent 2 }}
  tolerations:
    # The taint that this manager removes.
    - {key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}
    - {key: node-role.kubernetes.io/control-plane, operator: Exists}
    # The node has no network yet. No effect is named: the manager must not be evicted from a node that stays NotReady,
    # because the node waits for the manager.
    - {key: node.kubernetes.io/not-ready, operator: Exists}
    - {key: node.kubernetes.io/network-unavailable, operator: Exists}
    {{- if eq .Values.workload "DaemonSet" }}
    # A node that is sometimes unreachable: another pod for this node could not start there. (The pod of a Deployment is
    # replaced on another node.)
    - {key: node.kubernetes.io/unreachable, operator: Exists}
    {{- end }}
    {{- with .Values.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  # Invariant R10 (host/SECURITY.md): code that escapes from the engine has the machine's network, and no other right on it.
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - {{- include "ccm.container" . | nindent 6 }}
  volumes:
    # Compiled modules: a restarted container need not compile them again.
    - {name: cache, emptyDir: {sizeLimit: {{ .Values.cache.sizeLimit | quote }}}}
    - {name: config, configMap: {name: {{ include "ccm.name" . }}}}
    {{- range .Values.providers }}
    {{- if .volume }}
    - {{- toYaml (merge (dict "name" (printf "provider-%s" .name)) .volume) | nindent 6 }}
    {{- end }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "ccm.affinity" -}}
{{- if or .Values.nodeSelectorTerms (eq .Values.workload "Deployment") -}}
affinity:
  {{- with .Values.nodeSelectorTerms }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: {{- toYaml . | nindent 8 }}
  {{- end }}
  {{- if eq .Values.workload "Deployment" }}
  podAntiAffinity:
    {{- if .Values.hostNetwork }}
    # They need ports of the host.
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "ccm.selector" . | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "ccm.selector" . | nindent 14 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "ccm.container" -}}
name: {{ include "ccm.name" . }}
image: {{ include "ccm.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
# `kubectl describe pod` shows why it ended, also where `kubectl logs` does not reach the kubelet.
terminationMessagePolicy: FallbackToLogsOnError
args:
  - --config=/etc/cloud-controller-manager/config.yaml
  - --provider-store-namespace={{ .Release.Namespace }}
  - --provider-compilation-cache-dir=/var/cache/wasm-ccm/compiled
  - {{ printf "--provider-compilation-cache-size=%s" .Values.cache.sizeLimit | quote }}
  - --health-probe-bind-address={{ if .Values.hostNetwork }}127.0.0.1{{ end }}:{{ .Values.ports.probes }}
  - --secure-port={{ .Values.ports.secure }}
  - --use-service-account-credentials=true
  - --leader-elect=true
  - --leader-elect-resource-namespace={{ .Release.Namespace }}
  - --configure-cloud-routes={{ .Values.routes.enabled }}
  {{- if .Values.routes.enabled }}
  - {{ printf "--cluster-cidr=%s" .Values.routes.clusterCIDR | quote }}
  {{- end }}
  {{- range .Values.args }}
  - {{ . | quote }}
  {{- end }}
env:
  # Where it runs: it asks there how the container before ended.
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  {{- with .Values.apiServer }}
  {{- if .host }}
  - {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
  - {name: KUBERNETES_SERVICE_PORT, value: {{ .port | quote }}}
  {{- end }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: https, containerPort: {{ .Values.ports.secure }}{{ if .Values.hostNetwork }}, hostPort: {{ .Values.ports.secure }}{{ end }}}
startupProbe:
  # It waits for the API server and for Secrets, not for modules. If it takes longer, the kubelet restarts it.
  httpGet: {{ include "ccm.probe" (dict "root" . "port" "probes" "path" "/healthz" "scheme" "HTTP") }}
  failureThreshold: 30
  periodSeconds: 2
  terminationGracePeriodSeconds: 5
livenessProbe:
  # A blocked manager is ended within 25 s: 4 s until the next probe, four probes of 4 s, and 5 s for SIGTERM. With the
  # back-off of 10 s, the start and the old manager's lease (15 s), a provider serves again within 60 s, even without a standby.
  httpGet: {{ include "ccm.probe" (dict "root" . "port" "secure" "path" "/healthz" "scheme" "HTTPS") }}
  periodSeconds: 4
  timeoutSeconds: 4
  failureThreshold: 4
  terminationGracePeriodSeconds: 5
readinessProbe:
  # Ready when a provider serves; a standby is also ready while it waits for the leader.
  httpGet: {{ include "ccm.probe" (dict "root" . "port" "probes" "path" "/readyz" "scheme" "HTTP") }}
  periodSeconds: 5
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: cache, mountPath: /var/cache/wasm-ccm}
  - {name: config, mountPath: /etc/cloud-controller-manager, readOnly: true}
  {{- range .Values.providers }}
  {{- if .volume }}
  - {name: provider-{{ .name }}, mountPath: {{ include "ccm.directory" . }}, readOnly: true}
  {{- end }}
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "ccm.probe" -}}
{ {{- if .root.Values.hostNetwork }}host: 127.0.0.1, {{ end }}port: {{ index .root.Values.ports .port }}, path: {{ .path }}, scheme: {{ .scheme -}} }
{{- end }}
