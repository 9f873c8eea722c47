package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// eventTables are the tables of deploy/EVENTS.md.
func eventTables() string {
	var b strings.Builder
	for i, g := range report.Events() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n\n| reason | type | when |\n|---|---|---|\n", g.About)
		for _, e := range g.Events {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Reason, e.Type, e.When)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// causeTable is the table of reasons in deploy/docs/troubleshoot.md. Neighbours with
// one next step share a row.
func causeTable() string {
	type row struct{ reasons, means, next string }
	var rows []row
	for _, c := range report.Causes() {
		next := c.Next.What
		if command := c.Next.Documented(); command != "" {
			next += ": `" + strings.ReplaceAll(command, "|", "\\|") + "`"
		}
		if last := len(rows) - 1; last >= 0 && next != "" && rows[last].next == next {
			rows[last].reasons += ", `" + c.Reason + "`"
			rows[last].means += "; " + c.Means
			continue
		}
		rows = append(rows, row{"`" + c.Reason + "`", c.Means, next})
	}
	text := "| reason | what it means | what to do |\n|---|---|---|"
	for _, r := range rows {
		text += fmt.Sprintf("\n| %s | %s | %s |", r.reasons, r.means, r.next)
	}
	return text
}

// alertExpressions are those of deploy/docs/monitor.md.
func alertExpressions() string {
	var b strings.Builder
	b.WriteString("```promql\n")
	for _, a := range report.Alerts() {
		b.WriteString(a.Expr + "\n")
	}
	return b.String() + "```"
}

// rule is an alert in Prometheus' format.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alertRules is the chart's file of alerts.
func alertRules() ([]byte, error) {
	var rules []rule
	for _, a := range report.Alerts() {
		rules = append(rules, rule{a.Name, a.Expr, a.For, map[string]string{"severity": a.Severity}, map[string]string{
			"summary": a.Summary, "next_step": a.Next, "page": a.Page,
		}})
	}
	text, err := yaml.Marshal(rules)
	if err != nil {
		return nil, fmt.Errorf("write the alerts: %w", err)
	}
	return append([]byte("# Made from host/internal/report by make generate.\n"), text...), nil
}
