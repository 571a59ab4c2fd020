package app

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	descName  = regexp.MustCompile(`fqName: "(sluice_[a-z_]+)"`)
	descLabel = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
	docName   = regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)`")
)

// TestMetricsAreDocumented compares what the binary can show with docs/metrics.md, both ways, and refuses labels whose
// values have no bound.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range docName.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	ch := make(chan *prometheus.Desc, 1000)
	newMetrics(&App{}).registry.Describe(ch)
	close(ch)
	for d := range ch {
		m := descName.FindStringSubmatch(d.String())
		if m == nil {
			continue // of the runtime
		}
		if !documented[m[1]] {
			t.Errorf("%s is not in docs/metrics.md", m[1])
		}
		delete(documented, m[1])
		labels := descLabel.FindStringSubmatch(d.String())
		for _, forbidden := range []string{"stream", "stream_id", "table", "run", "run_id", "user", "sql"} {
			if labels != nil && slices.Contains(regexp.MustCompile(`[a-z_]+`).FindAllString(labels[1], -1), forbidden) {
				t.Errorf("%s has the label %s", m[1], forbidden)
			}
		}
	}
	for name := range documented {
		t.Errorf("docs/metrics.md has %s, which the binary does not know", name)
	}
}
