{{- define "ccm.name" -}}cloud-controller-manager{{- end }}

{{- /* The selector of the workload: it never changes. */}}
{{- define "ccm.selector" -}}
app.kubernetes.io/name: {{ include "ccm.name" . }}
{{- end }}

{{- define "ccm.labels" -}}
{{ include "ccm.selector" . }}
app.kubernetes.io/part-of: wasm-ccm
{{- end }}

{{- /* The accounts of upstream's controllers, which are in kube-system. */}}
{{- define "ccm.controllers" -}}
node-controller service-controller route-controller persistentvolume-label-controller
{{- end }}

{{- define "ccm.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "ccm.manager" -}}
{kind: ServiceAccount, name: {{ include "ccm.name" . }}, namespace: {{ .Release.Namespace | quote }}}
{{- end }}

{{- /*
"true" when an object may be part of this release: it is not there, or is part of it already. Kubernetes makes some objects
by itself, and Helm refuses to take these over. Arguments: apiVersion, kind, namespace, name, root.
*/}}
{{- define "ccm.ours" -}}
{{- $found := lookup .apiVersion .kind .namespace .name }}
{{- $annotations := dig "metadata" "annotations" dict ($found | default dict) }}
{{- if or (not $found) (and (eq (dig "meta.helm.sh/release-name" "" $annotations) .root.Release.Name) (eq (dig "meta.helm.sh/release-namespace" "" $annotations) .root.Release.Namespace)) -}}
true
{{- end }}
{{- end }}

{{- /* Where the module of a provider is: what it says, its volume, or the ConfigMap that is called after it. */}}
{{- define "ccm.source" -}}
{{- if .provider.source }}
{{- toYaml .provider.source }}
{{- else if .provider.volume }}
{{- toYaml (dict "directory" (include "ccm.directory" .provider)) }}
{{- else }}
{{- toYaml (dict "configMap" (dict "namespace" .root.Release.Namespace "name" (printf "cloud-provider-%s" .provider.name))) }}
{{- end }}
{{- end }}

{{- /* Where the configuration of a provider is, if it is not beside its module. */}}
{{- define "ccm.configFrom" -}}
{{- if .provider.configFrom }}
{{- toYaml .provider.configFrom }}
{{- else if .provider.config }}
{{- toYaml (dict "configMap" (dict "namespace" .root.Release.Namespace "name" (printf "cloud-provider-%s-config" .provider.name))) }}
{{- end }}
{{- end }}

{{- define "ccm.directory" -}}
/etc/cloud-provider/{{ .name }}
{{- end }}

{{- /* A provider as the HostConfiguration has it. The store is always named, because RBAC has to name it. */}}
{{- define "ccm.provider" -}}
{{- $provider := omit .provider "volume" "config" }}
{{- $_ := set $provider "source" (include "ccm.source" . | fromYaml) }}
{{- with include "ccm.configFrom" . }}{{ $_ := set $provider "configFrom" (fromYaml .) }}{{ end }}
{{- $_ := set $provider "store" (.provider.store | default .provider.name) }}
{{- toYaml (list $provider) }}
{{- end }}

{{- /* The ConfigMaps and Secrets of others that the manager reads for a provider, as {read: [{resource, namespace, name}]}. */}}
{{- define "ccm.reads" -}}
{{- $sources := list (include "ccm.source" . | fromYaml) }}
{{- $configMaps := list }}
{{- $secrets := list }}
{{- range .provider.credentials }}
{{- $secrets = append $secrets .secret }}
{{- with dig "signer" "source" dict . }}{{ $sources = append $sources . }}{{ end }}
{{- end }}
{{- range .provider.configMaps }}{{ $configMaps = append $configMaps . }}{{ end }}
{{- range .provider.secrets }}{{ $secrets = append $secrets . }}{{ end }}
{{- range .provider.grants }}
{{- with .clientCertificate }}{{ $secrets = append $secrets . }}{{ end }}
{{- end }}
{{- range concat $sources (list (include "ccm.configFrom" . | fromYaml)) }}
{{- with .configMap }}{{ $configMaps = append $configMaps . }}{{ end }}
{{- with .secret }}{{ $secrets = append $secrets . }}{{ end }}
{{- with dig "oci" "pullSecret" dict . }}{{ $secrets = append $secrets . }}{{ end }}
{{- end }}
{{- range dig "kube" "configMaps" list .provider }}{{ $configMaps = append $configMaps . }}{{ end }}
{{- range dig "kube" "secrets" list .provider }}{{ $secrets = append $secrets . }}{{ end }}
{{- toYaml (dict "configmaps" $configMaps "secrets" $secrets) }}
{{- end }}

{{- /* The namespaces whose EndpointSlices a provider reads, as a JSON list; "*" is all. */}}
{{- define "ccm.endpointSlices" -}}
{{- concat (dig "kube" "endpointSlices" list .) (.endpointSlices | default list) | toJson }}
{{- end }}

{{- /*
The providers that the manager needs rights for, as {all: [...]}: those of the list, and what cloudProviders.rights says of
CloudProviders.
*/}}
{{- define "ccm.entitled" -}}
{{- $all := .Values.providers }}
{{- if .Values.cloudProviders.enabled }}
{{- range .Values.cloudProviders.rights }}
{{- $config := dict "configMap" (dict "namespace" $.Release.Namespace "name" (printf "cloud-provider-%s-config" .name)) }}
{{- $all = append $all (merge (dict "configFrom" $config) .) }}
{{- end }}
{{- end }}
{{- toYaml (dict "all" $all) }}
{{- end }}

{{- define "ccm.bindProvider" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: wasm-ccm:provider:{{ .name }}
  namespace: {{ .namespace | quote }}
  labels: {{- include "ccm.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "wasm-ccm:provider:{{ .name }}"}
subjects:
  - {{ include "ccm.manager" .root }}
{{- end }}
