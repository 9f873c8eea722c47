{{- /* What would make a release that cannot work, and the schema does not see. */}}
{{- define "ccm.validate" -}}
{{- if not (or .Values.providers .Values.cloudProviders.enabled) }}{{ fail "providers: give one, or set cloudProviders.enabled" }}{{ end }}
{{- $names := list }}
{{- $stores := list }}
{{- $configs := list }}
{{- range $i, $provider := (include "ccm.entitled" . | fromYaml).all }}
{{- $store := .store | default .name }}
{{- if has .name $names }}{{ fail (printf "providers[%d].name: there are two providers %q" $i .name) }}{{ end }}
{{- if has $store $stores }}{{ fail (printf "providers[%d].store: the store %q belongs to another provider" $i $store) }}{{ end }}
{{- if and .source .volume }}{{ fail (printf "providers[%d]: give either source or volume" $i) }}{{ end }}
{{- if and .config .configFrom }}{{ fail (printf "providers[%d]: give either config or configFrom" $i) }}{{ end }}
{{- $names = append $names .name }}
{{- $stores = append $stores $store }}
{{- if .config }}{{ $configs = append $configs (printf "%s-config" .name) }}{{ end }}
{{- end }}
{{- include "ccm.validateProviders" . }}
{{- range $name := $names }}
{{- if has $name $configs }}{{ fail (printf "providers: the ConfigMap cloud-provider-%s would be a module and the configuration of another provider; choose another name" $name) }}{{ end }}
{{- end }}
{{- if has .Values.modulesNamespace (list .Release.Namespace "kube-system") }}
{{- fail "modulesNamespace: the manager may read every ConfigMap there; choose a namespace of its own" }}
{{- end }}
{{- if and .Values.routes.enabled (not .Values.routes.clusterCIDR) }}
{{- fail "routes.clusterCIDR: with routes.enabled the manager needs the same cluster CIDR as kube-controller-manager" }}
{{- end }}
{{- if eq (int .Values.ports.secure) (int .Values.ports.probes) }}
{{- fail (printf "ports.probes: port %d is ports.secure already" (int .Values.ports.probes)) }}
{{- end }}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork }}
{{- fail "networkPolicy.enabled: no NetworkPolicy holds for pods of the host network; set hostNetwork to false, or networkPolicy.enabled to false" }}
{{- end }}
{{- end }}

{{- /* What a manager refuses when it starts, and what people get wrong: a release that succeeds would look right. */}}
{{- define "ccm.validateProviders" -}}
{{- $default := "" }}
{{- $classes := dict }}
{{- range $i, $provider := .Values.providers }}
{{- $at := printf "providers[%d]" $i }}
{{- $services := dig "routing" "services" dict . }}
{{- if and $services.default $default }}{{ fail (printf "%s.routing.services.default: the provider %q is the default already; only one can be" $at $default) }}{{ end }}
{{- if $services.default }}{{ $default = .name }}{{ end }}
{{- range $class := $services.classes }}
{{- with get $classes $class }}{{ fail (printf "%s.routing.services.classes: the class %q belongs to the provider %q; give it once" $at $class .) }}{{ end }}
{{- $_ := set $classes $class $provider.name }}
{{- end }}
{{- include "ccm.validateSource" (dict "source" .source "at" (printf "%s.source" $at)) }}
{{- range $field := list "repository" "minimumVersion" }}
{{- if and (dig "provenance" $field "" $provider) (not (dig "provenance" "publicKeys" list $provider)) }}
{{- fail (printf "%s.provenance.%s: only a signature makes it true; give publicKeys" $at $field) }}
{{- end }}
{{- end }}
{{- range $j, $credential := .credentials }}
{{- include "ccm.validateSource" (dict "source" (dig "signer" "source" dict $credential) "at" (printf "%s.credentials[%d].signer.source" $at $j)) }}
{{- end }}
{{- /* The kubelet evicts a pod whose machine code is larger than its volume. */}}
{{- if and (dig "limits" "compile" "output" "" .) (eq $.Values.cache.sizeLimit "512Mi") }}
{{- fail (printf "%s.limits.compile.output: more machine code needs more than cache.sizeLimit, %s; give it such as 4Gi" $at $.Values.cache.sizeLimit) }}
{{- end }}
{{- with .configFrom }}{{ if ne (len .) 1 }}{{ fail (printf "%s.configFrom: give either configMap or secret" $at) }}{{ end }}{{ end }}
{{- end }}
{{- end }}

{{- /* Arguments: source, and at, which is where it is. The reference is as the manager reads it. */}}
{{- define "ccm.validateSource" -}}
{{- $at := .at }}
{{- with .source }}
{{- if ne (len .) 1 }}{{ fail (printf "%s: give exactly one of configMap, directory and oci; it has %s" $at (keys . | sortAlpha | join ", ")) }}{{ end }}
{{- if and .directory (not (hasPrefix "/" .directory)) }}{{ fail (printf "%s.directory: %q is no absolute path" $at .directory) }}{{ end }}
{{- $image := `^(localhost|[^/@]*[.:][^/@]*)/[^/:@\s][^:@\s]*(:[\w][\w.-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$` }}
{{- if and .oci (not (regexMatch $image .oci.reference)) }}
{{- fail (printf "%s.oci.reference: %q is not HOST[:PORT]/PATH:TAG or HOST[:PORT]/PATH@sha256:HEX, such as registry.example.com/providers/mycloud:v1" $at .oci.reference) }}
{{- end }}
{{- end }}
{{- end }}
