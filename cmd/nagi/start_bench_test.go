package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// BenchmarkStart is nagi as its own process that connects and reads one document, beside a program that does the same
// with nats.go alone. They take turns, so that what else the machine does meets both. It reports the medians, and that of
// the difference in each round.
//
//	go test ./cmd/nagi -run '^$' -bench Start -benchtime 50x
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	nagi, bare := filepath.Join(dir, "nagi"), filepath.Join(dir, "bare")
	for program, source := range map[string]string{nagi: ".", bare: "./testdata/bare"} {
		if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	srv := natstest.Start(b)
	fill(b, srv, 1000)
	timed := func(command ...string) float64 {
		b.Helper()
		began := time.Now()
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil || len(out) < 100 {
			b.Fatalf("%v: %v\n%s", command, err, out)
		}
		return float64(time.Since(began).Microseconds()) / 1000
	}
	var nagis, bares, beyond []float64
	round := func() {
		one := timed(bare, srv.URL(), "sites", "shop.site-1")
		two := timed(nagi, "--server="+srv.URL(), "get", "-b", "sites", "--namespaced", "shop/site-1", "-o", "json")
		bares, nagis, beyond = append(bares, one), append(nagis, two), append(beyond, two-one)
	}
	round() // reads both programs from the disk
	nagis, bares, beyond = nil, nil, nil
	for b.Loop() {
		round()
	}
	b.ReportMetric(median(nagis), "nagi-ms")
	b.ReportMetric(median(bares), "bare-ms")
	b.ReportMetric(median(beyond), "beyond-ms")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
