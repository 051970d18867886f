package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkGet is nagi as its own process, beside documents of some 450 bytes and their records: how long it takes, and
// how much memory the process had at most. With NATSCLI=<path of nats> it does the same with nats kv ls.
//
//	go test ./cmd/nagi -run '^$' -bench Get -benchtime 1x
func BenchmarkGet(b *testing.B) {
	nagi := filepath.Join(b.TempDir(), "nagi")
	if out, err := exec.Command("go", "build", "-o", nagi, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, n := range []int{1000, 100_000} {
		srv := natstest.Start(b)
		fill(b, srv, n)
		server := "--server=" + srv.URL()
		commands := map[string][]string{
			"table": {nagi, server, "get", "-b", "sites", "--namespaced"},
			"name":  {nagi, server, "get", "-b", "sites", "--namespaced", "-o", "name"},
			"json":  {nagi, server, "get", "-b", "sites", "--namespaced", "-o", "json"},
		}
		if nats := os.Getenv("NATSCLI"); nats != "" {
			commands["nats kv ls"] = []string{nats, server, "kv", "ls", "sites"}
			commands["nats kv ls -v"] = []string{nats, server, "kv", "ls", "sites", "--verbose", "--display-value"}
		}
		for name, command := range commands {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					measure(b, n, command)
				}
			})
		}
	}
}

func measure(b *testing.B, n int, command []string) {
	cmd := exec.Command(command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done, most := make(chan error, 1), 0
	go func() { done <- cmd.Wait() }()
	for ticker := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case err := <-done:
			ticker.Stop()
			if lines := bytes.Count(stdout.Bytes(), []byte("\n")); err != nil || lines < n {
				b.Fatalf("%v prints %d lines of %d: %v\n%s", command, lines, n, err, stderr.String())
			}
			b.ReportMetric(float64(most)/1024, "MiB")
			b.ReportMetric(float64(cmd.ProcessState.UserTime().Milliseconds()), "user-ms")
			return
		case <-ticker.C:
			most = max(most, peak(cmd.Process.Pid))
		}
	}
}

// peak is how many KiB a process had at most. What the kernel tells of a child that has ended counts what its parent had.
func peak(pid int) (kib int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, after, ok := bytes.Cut(status, []byte("VmHWM:")); ok {
		_, _ = fmt.Sscan(string(after), &kib)
	}
	return kib
}

func fill(b *testing.B, srv *natstest.Server, n int) {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	_, js := natstest.Connect(b, srv.URL())
	padding := bytes.Repeat([]byte("x"), 350)
	for bucket, value := range map[string]string{
		"sites": `{"metadata":{"labels":{"tier":"gold"}},"spec":{"host":"home.example","text":%q}}`,
		"sites-status": `{"schemaVersion":1,"controller":"sites","firstSeen":"2026-11-25T04:16:02Z","phase":"Synced",` +
			`"conditions":[{"type":"Reconciled","status":"True"}],"lastDocument":{"spec":{"text":%q}}}`,
	} {
		kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage})
		if err != nil {
			b.Fatal(err)
		}
		text := fmt.Appendf(nil, value, padding)
		for i := range n {
			if _, err := js.PublishAsync(fmt.Sprintf("$KV.%s.shop.site-%d", kv.Bucket(), i), text); err != nil {
				b.Fatal(err)
			}
			if i%1000 != 999 {
				continue
			}
			select {
			case <-js.PublishAsyncComplete():
			case <-ctx.Done():
				b.Fatal(ctx.Err())
			}
		}
	}
}
