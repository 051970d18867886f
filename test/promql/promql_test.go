// Package promql tests docs/alerts and docs/dashboards with the parser of Prometheus: that each expression can be read,
// and names only what a scrape has.
package promql

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	client "k8s.io/client-go/tools/metrics"
)

const (
	alerts    = "../../docs/alerts/nagi.rules.yaml"
	dashboard = "../../docs/dashboards/nagi.json"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scraped are the labels that the series of a scrape have, by the name of the series.
type scraped map[string][]labels.Labels

// scrape returns what a controller shows that has all there is: an external API, events, and a Kubernetes client.
func scrape(t *testing.T) scraped {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, err := entity.NewClient[*entity.Object[struct{}, struct{}]](t.Context(), js,
		entity.Config{Kind: "Site", Bucket: "sites"})
	must(t, err)
	t.Cleanup(sites.Close)
	m := metrics.New()
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
		m.Controller(), controller.OwnsExternal(cloudtest.NewListed()))
	must(t, err)
	events, err := recorder.New(recorder.Config{})
	must(t, err)
	t.Cleanup(func() { must(t, events.Close(context.Background())) })
	m.Recorder("sites", events)
	must(t, m.Kubernetes())
	client.RequestResult.Increment(t.Context(), "200", http.MethodGet, "example.com")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-done) })
	for began := time.Now(); !c.Stats().Leading; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("it does not lead: %v", c.Stats().Degraded)
		}
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	all := scraped{}
	p := parser.NewParser(parser.Options{})
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series := strings.TrimSpace(line[:strings.LastIndexByte(line, ' ')])
		l, err := p.ParseMetric(series)
		if err != nil {
			t.Fatalf("%s: %v", series, err)
		}
		name := l.Get(model.MetricNameLabel)
		all[name] = append(all[name], l)
	}
	return all
}

// ofTarget are the labels that Prometheus adds to what it scrapes.
var ofTarget = map[string]bool{"job": true, "instance": true, model.MetricNameLabel: true}

// check looks whether an expression can be read, and whether each of its selectors finds a series. A matcher with "$"
// is a variable of a dashboard.
func (s scraped) check(t *testing.T, where, expr string) {
	t.Helper()
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			if !s.finds(n) {
				t.Errorf("%s: no series of a scrape is %s", where, n)
			}
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				if label != "le" && !s.labelOf(n.Expr, label) {
					t.Errorf("%s: what is summed in %s has no label %s", where, n, label)
				}
			}
		}
		return nil
	})
}

func (s scraped) finds(selector *parser.VectorSelector) bool {
	for _, series := range s[selector.Name] {
		matches := true
		for _, m := range selector.LabelMatchers {
			variable := strings.Contains(m.Value, "$")
			switch {
			case ofTarget[m.Name]:
			case variable:
				matches = matches && series.Get(m.Name) != ""
			default:
				matches = matches && m.Matches(series.Get(m.Name))
			}
		}
		if matches {
			return true
		}
	}
	return false
}

// labelOf reports whether a selector of an expression finds series with the label.
func (s scraped) labelOf(expr parser.Expr, label string) (found bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, series := range s[selector.Name] {
				found = found || series.Get(label) != "" || ofTarget[label]
			}
		}
		return nil
	})
	return found
}

// TestTheAlertsAndTheDashboardNameWhatAScrapeHas.
func TestTheAlertsAndTheDashboardNameWhatAScrapeHas(t *testing.T) {
	s := scrape(t)
	t.Run("alerts", func(t *testing.T) {
		content, err := os.ReadFile(alerts)
		must(t, err)
		groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
			slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
		n := 0
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				n++
				s.check(t, rule.Alert, rule.Expr)
				if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
					t.Errorf("%s has no summary, or no severity", rule.Alert)
				}
			}
		}
		if n < 10 {
			t.Errorf("only %d alerts were read", n)
		}
	})
	t.Run("dashboard", func(t *testing.T) { s.checkDashboard(t) })
	t.Run("nothing is left out", func(t *testing.T) { s.checkNothingLeftOut(t) })
}

func (s scraped) checkDashboard(t *testing.T) {
	content, err := os.ReadFile(dashboard)
	must(t, err)
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name  string
				Type  string
				Query json.RawMessage
			}
		}
	}
	must(t, json.NewDecoder(bytes.NewReader(content)).Decode(&board))
	ids, asked := map[int]bool{}, 0
	for _, panel := range board.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			asked++
			s.check(t, panel.Title, target.Expr)
		}
	}
	if asked < 20 {
		t.Errorf("only %d expressions were read", asked)
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, variable := range board.Templating.List {
		if variable.Type != "query" {
			continue
		}
		var query struct{ Query string }
		must(t, json.Unmarshal(variable.Query, &query))
		parts := values.FindStringSubmatch(query.Query)
		if parts == nil {
			t.Errorf("variable %s: %s", variable.Name, query.Query)
			continue
		}
		s.check(t, "variable "+variable.Name, parts[1])
	}
}

// notShown are the series of Nagi's own that the dashboard leaves out, and what it shows of the same instead.
var notShown = map[string]string{
	"nagi_terms_total":                   "leader_election_master_status",
	"nagi_sweeps_total":                  "nagi_orphaned_objects",
	"nagi_brake_engagements_total":       "nagi_brake_engaged",
	"nagi_external_breaker_opened_total": "nagi_external_api_available",
	"nagi_invalid_reports_total":         "nagi_invalid_documents",
	"nagi_events_dropped_total":          "nagi_events_total",
	"nagi_events_pending":                "nagi_events_total",
}

// checkNothingLeftOut looks whether the dashboard shows each series of Nagi's own, but for what notShown says.
func (s scraped) checkNothingLeftOut(t *testing.T) {
	content, err := os.ReadFile(dashboard)
	must(t, err)
	shown := map[string]bool{}
	for _, name := range regexp.MustCompile(`nagi_\w+`).FindAllString(string(content), -1) {
		shown[name] = true
	}
	for name := range s {
		if strings.HasPrefix(name, "nagi_") && shown[name] == (notShown[name] != "") {
			t.Errorf("%s: on the dashboard %v; left out because of %q", name, shown[name], notShown[name])
		}
	}
}

// TestWhatNoScrapeHasIsNoticed tests the check itself: if it saw nothing, the other test would pass.
func TestWhatNoScrapeHasIsNoticed(t *testing.T) {
	s := scraped{"a": {labels.FromStrings(model.MetricNameLabel, "a", "x", "1")}}
	for expr, want := range map[string]bool{
		`sum by (x) (rate(a{x="1",job="j"}[5m]))`: true, `a{x="$x"}`: true, `b`: false, `a{x="2"}`: false,
		`a{y="$y"}`: false, `sum by (y) (a)`: false, `sum(`: false,
	} {
		probe := &testing.T{}
		done := make(chan struct{})
		go func() { defer close(done); s.check(probe, "here", expr) }()
		<-done
		if probe.Failed() == want {
			t.Errorf("%s: accepted %v", expr, !want)
		}
	}
}
