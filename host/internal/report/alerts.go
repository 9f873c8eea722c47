package report

import (
	"fmt"
	"time"
)

// Alert is a rule of the chart for Prometheus.
type Alert struct {
	Name, Expr string
	// For is how long it must hold; "" for none. Severity is critical or warning.
	For, Severity string
	// Summary and Next, a first step with its command, are templates of Prometheus.
	Summary, Next string
	// Page is a page of this repository.
	Page string
}

// whyLabel asks about the provider of an alert.
const whyLabel = "ccmctl why provider {{ $labels.provider }}"

// Alerts are all of them. An object that is tried again is not stuck meanwhile, so the
// alert of stuck objects looks back for two minutes.
func Alerts() []Alert { return append([]Alert(nil), alerts...) }

var alerts = []Alert{
	{"WasmCCMNotServing", `sum by (provider) (wasm_ccm_provider_generation) == 0 or absent(wasm_ccm_config_rejected)`,
		"10m", "critical",
		`No manager answers, or no module of the provider {{ $labels.provider }} serves`,
		`See whether the manager's Pods run: kubectl get pods -A -l app.kubernetes.io/name=cloud-controller-manager; if they do: ccmctl status`,
		"deploy/docs/troubleshoot.md#what-you-see-and-what-it-means"},
	{"WasmCCMNoLeader", `max(wasm_ccm_leads) == 0`,
		"5m", "critical",
		`Managers answer, and none of them leads, so no Node is initialised and no load balancer is made`,
		`See who holds the Lease: kubectl get leases -A --field-selector metadata.name=cloud-controller-manager; then what else keeps the managers from it: ccmctl check`,
		"deploy/docs/install.md#control-plane-nodes"},
	{"WasmCCMObjectsStuck", `max_over_time((sum by (kind, provider) (wasm_ccm_stuck))[2m:15s]) > 0`,
		"15m", "warning",
		`{{ $value }} objects of kind {{ $labels.kind }} do not go on, of {{ with $labels.provider }}the provider {{ . }}{{ else }}no provider{{ end }}`,
		`See which, and why: ccmctl status; then the way out of each: ccmctl why {{ toLower $labels.kind }} NAME`,
		"deploy/docs/troubleshoot.md"},
	{"WasmCCMNotDurable", `wasm_ccm_provider_condition{condition="Durable"} == 0`,
		"5m", "warning",
		`What serves of the provider {{ $labels.provider }} could not be saved; a manager that restarts begins with the module in the source`,
		`See why: ` + whyLabel,
		"deploy/docs/troubleshoot.md#what-you-see-and-what-it-means"},
	{"WasmCCMCertificateEnds", fmt.Sprintf("wasm_ccm_serving_certificate_end_timestamp_seconds - time() < %d * 24 * 3600", CertificateAhead/(24*time.Hour)),
		"1h", "warning",
		`The certificate of the manager's secure port ends in {{ $value | humanizeDuration }}`,
		`Renew the file of --tls-cert-file, which is read again by itself; without one a manager makes a certificate at its start: kubectl -n kube-system rollout restart daemonset,deployment -l app.kubernetes.io/name=cloud-controller-manager`,
		"deploy/docs/monitor.md#metrics"},
	{"WasmCCMDeletionBrakeEngaged", `wasm_ccm_deletion_brake_engaged > 0`,
		"", "critical",
		`The provider {{ $labels.provider }} says that the machines of many Nodes do not exist; some Nodes wait to be deleted`,
		`Compare its words with the cloud's own console: ` + whyLabel,
		"deploy/docs/node-deletion.md"},
	{"WasmCCMDeletionBrakeFailing", `wasm_ccm_deletion_brake_failing > 0`,
		"5m", "warning",
		`The deletion brake of the provider {{ $labels.provider }} lacks {{ $labels.what }}; no Node is deleted`,
		`See what the API server says: ` + EventsOf(DeletionBrakeFailing),
		"deploy/docs/node-deletion.md"},
	{"WasmCCMConfigRejected", `wasm_ccm_config_rejected > 0`,
		"5m", "warning",
		`The HostConfiguration is not in force as it is written, but the previous one; if it is invalid, a manager that restarts ends at once`,
		`See which field is wrong, or what it waits for: ccmctl status; ccmctl check`,
		"deploy/docs/configure.md"},
	{"WasmCCMRolloutStopped", `wasm_ccm_provider_rollout_phase{phase=~"Rejected|Held|RolledBack"} > 0`,
		"5m", "warning",
		`The newest module of the provider {{ $labels.provider }} is {{ $labels.phase }}; the one before it serves, if there is one`,
		`See why, and what lets it go on: ` + whyLabel,
		"deploy/docs/roll-back.md"},
	{"WasmCCMSourceUnavailable", `wasm_ccm_provider_source_unavailable > 0`,
		"1h", "warning",
		`The registry with the image of the provider {{ $labels.provider }} cannot be asked ({{ $labels.reason }}); the serving module continues`,
		`See what the registry says: ` + whyLabel,
		"deploy/docs/module-sources.md#in-a-registry"},
	{"WasmCCMProviderBackoff", `increase(wasm_ccm_provider_backoffs_total[15m]) > 0`,
		"", "warning",
		`The provider {{ $labels.provider }} hung or crashed on an object again and again ({{ $labels.op }})`,
		`See on which: ` + EventsOf(ProviderBackoff),
		"deploy/docs/troubleshoot.md#what-you-see-and-what-it-means"},
	{"WasmCCMProviderErrors", `sum by (provider) (rate(wasm_ccm_provider_op_duration_seconds_count{code!~"ok|not_found|instance_not_found|not_implemented|implemented_elsewhere|retry_after|canceled"}[15m])) > 0.1`,
		"5m", "warning",
		`The provider {{ $labels.provider }} answers with errors`,
		`See what the cloud answers it, and which objects wait: ccmctl calls --counts --provider {{ $labels.provider }}; ccmctl status`,
		"deploy/docs/troubleshoot.md"},
	{"WasmCCMCloudBreakerOpen", `wasm_ccm_cloud_breaker_open > 0`,
		"5m", "warning",
		`The host {{ $labels.host }} of the provider {{ $labels.provider }} failed too often; the manager sends it one request from time to time`,
		`See the last fault, and the cloud's own console: ccmctl status -o wide; ccmctl calls --provider {{ $labels.provider }}`,
		"deploy/docs/troubleshoot.md"},
}
