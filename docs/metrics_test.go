package docs_test

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestMetrics asks of every family that a page, a rule or the dashboard names that the server
// has it, and of every alert that it names one.
func TestMetrics(t *testing.T) {
	families := firsts(serverSource(t), `(?:counter|gauge)\("(queen_[a-z_]+)"`)
	if len(families) < 60 {
		t.Fatalf("%d families found in the source", len(families))
	}
	for _, path := range []string{"operations.md", "http-api.md", "operations/alerts.yml", "operations/grafana.json"} {
		named := firsts(read(t, "docs", path), `\b(queen_[a-z_]*[a-z])\b`)
		for _, name := range named {
			if !slices.Contains(families, name) && !slices.Contains([]string{"queen_process", "queen_cluster", "queen_group_lag"}, name) {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
		if len(named) == 0 {
			t.Errorf("%s names %d families", path, len(named))
		}
	}
	alerts := read(t, "docs", "operations", "alerts.yml")
	names, exprs := firsts(alerts, `(?m)^      - alert: (\w+)$`), firsts(alerts, `(?m)^        expr: (.*queen_.*)$`)
	if len(names) == 0 || len(names) != len(exprs) {
		t.Errorf("%d alerts with %d expressions", len(names), len(exprs))
	}
	if !json.Valid([]byte(read(t, "docs", "operations", "grafana.json"))) {
		t.Error("the dashboard is no JSON")
	}
}
