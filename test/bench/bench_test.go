package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain makes this binary a child for startProcess, if childVariable asks for one.
func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(serveChild(role, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// TestEverySectionMeasures what it names, with sizes too small to say anything about speed.
func TestEverySectionMeasures(t *testing.T) {
	b := &bench{scale: 0.001, rounds: 1, progress: io.Discard}
	r, err := b.measure(t.Context(), sections)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.chapters {
		measured := 0
		for _, f := range c.figures {
			for _, s := range f.subjects {
				measured += len(s.samples)
			}
			if len(f.subjects) == 0 && !strings.HasPrefix(f.what, "one change") { // a short span may have no change
				t.Errorf("section %s: nothing was measured of %q", sections[i].name, f.what)
			}
		}
		if measured == 0 || len(c.reaches) == 0 {
			t.Errorf("section %s: %d samples, %d promises", sections[i].name, measured, len(c.reaches))
		}
	}
	text := r.markdown()
	for _, want := range []string{
		kubernetesVersion, "## 1.", "## 2.", "## 3.", "## 4.", "## 5.", "## 6.", "## 7.", "not the full run",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not have %q", want)
		}
	}
}

// TestWhoIsBetterIsSaid, whether more or less is better.
func TestWhoIsBetterIsSaid(t *testing.T) {
	for _, test := range []struct {
		more         bool
		ours, theirs float64
		want         string
	}{
		{more: false, ours: 1, theirs: 3, want: "3.00× worse"},
		{more: false, ours: 3, theirs: 1, want: "**3.00× better**"},
		{more: true, ours: 1, theirs: 3, want: "**3.00× better**"},
		{more: true, ours: 300, theirs: 10, want: "30× worse"},
		{more: true, ours: 1, theirs: 1, want: "the same"},
		{more: false, ours: 0, theirs: 0, want: "|  |"},
	} {
		f := &figure{what: "it", unit: "s", more: test.more}
		f.add("Nagi", test.ours)
		f.add("somebody", test.theirs)
		var b strings.Builder
		f.markdown(&b)
		if !strings.Contains(b.String(), test.want) {
			t.Errorf("%+v:\n%s", test, b.String())
		}
	}
}

// TestQuantiles: a quantile is the nearest rank, and NaN without samples.
func TestQuantiles(t *testing.T) {
	samples := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(samples, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

// TestTheReportNamesTheKubernetesThatIsBuilt, because the binary does not contain its own version.
func TestTheReportNamesTheKubernetesThatIsBuilt(t *testing.T) {
	module, err := os.ReadFile("../kubetest/apiserver/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(module), "k8s.io/kubernetes "+kubernetesVersion+"\n") {
		t.Errorf("%s is not what test/kubetest/apiserver builds", kubernetesVersion)
	}
}

// TestSizesAreWhatTheReportSays of primaries and secondaries as JSON.
func TestSizesAreWhatTheReportSays(t *testing.T) {
	site := newWebsite("site-12345", 12345, time.Now().UnixNano())
	for _, obj := range []any{site, newConfigMap("site-12345-0", site)} {
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 430 || len(data) > 520 {
			t.Errorf("%T has %d bytes, want about 450: %s", obj, len(data), data)
		}
	}
}
