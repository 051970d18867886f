package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a call of run whose lines are read.
type program struct {
	*testing.T
	lines     *bufio.Scanner
	all       strings.Builder
	ended     chan error
	interrupt context.CancelFunc
}

func start(t *testing.T, s settings) *program {
	p := &program{T: t, ended: make(chan error, 1)}
	ctx, interrupt := context.WithCancel(t.Context())
	p.interrupt = interrupt
	says, writes := io.Pipe()
	p.lines = bufio.NewScanner(says)
	s.http = [2]string{"127.0.0.1:0", "127.0.0.1:0"}
	go func() {
		err := run(ctx, writes, s)
		_ = writes.Close()
		p.ended <- err
	}()
	return p
}

// says reads lines until all of the texts have come, one after the other.
func (p *program) says(texts ...string) {
	p.Helper()
	for p.lines.Scan() {
		p.all.WriteString(p.lines.Text() + "\n")
		if strings.Contains(p.lines.Text(), texts[0]) {
			if texts = texts[1:]; len(texts) == 0 {
				return
			}
		}
	}
	p.Fatalf("it ended, with %v, before it said %q:\n%s", <-p.ended, texts[0], p.all.String())
}

// saysInAnyOrder reads lines until each of the texts has come. A trace that grows after it was shown is shown in parts,
// and a child ends before its parent.
func (p *program) saysInAnyOrder(texts ...string) {
	p.Helper()
	for len(texts) > 0 && p.lines.Scan() {
		p.all.WriteString(p.lines.Text() + "\n")
		texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(p.lines.Text(), text) })
	}
	if len(texts) > 0 {
		p.Fatalf("it ended, with %v, before it said %q:\n%s", <-p.ended, texts, p.all.String())
	}
}

// ends reads what is left. It fails unless the program ends well.
func (p *program) ends() {
	p.Helper()
	for p.lines.Scan() {
		p.all.WriteString(p.lines.Text() + "\n")
	}
	if err := <-p.ended; err != nil {
		p.Fatalf("%v\n%s", err, p.all.String())
	}
}

func TestTheScenarioHoldsTwiceOnOneServerAndThenItServes(t *testing.T) {
	server := natstest.Start(t)
	once := start(t, settings{url: server.URL()})
	once.says("One tree of ", "  a customer orders", "    put Order order-", "      reconcile Order order-",
		"        put Workload order-", "          reconcile Workload order-",
		"            put Volume order-", "              reconcile Volume order-",
		"Order in bucket fleet-orders, by controller orders v1.0.0", "of each at most", "/healthz says ok",
		"nothing is left", "All 13 steps hold")
	once.ends()

	serving := start(t, settings{url: server.URL(), serve: true})
	serving.says("All 13 steps hold", "Interrupt to stop")
	_, js := natstest.Connect(t, server.URL())
	orders, err := js.KeyValue(t.Context(), "fleet-orders")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := orders.PutString(ctx, "mine", `{"spec":{"workloads":1,"volumes":1,"gigabytes":20}}`); err != nil {
		t.Fatal(err)
	}
	serving.saysInAnyOrder("reconcile Order mine (Put: succeeded)", "put Workload mine-w0",
		"reconcile Volume mine-w0-v0 (Put: succeeded)")
	serving.interrupt()
	serving.ends()
}

func TestTheErrorNamesWhatFailed(t *testing.T) {
	failing := start(t, settings{url: "nats://127.0.0.1:1"})
	for failing.lines.Scan() {
	}
	if err := <-failing.ended; err == nil || !strings.Contains(err.Error(), "connect to nats://127.0.0.1:1") {
		t.Errorf("the error is %v", err)
	}
}

// TestAnOrderThatCannotBePutEndsTheStep, also before anything happens to the replica that leads.
func TestAnOrderThatCannotBePutEndsTheStep(t *testing.T) {
	server := natstest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := newPlay(ctx, server.URL(), [2]string{"127.0.0.1:0", "127.0.0.1:0"}, sdktrace.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, replica := range p.replicas {
		if err := p.start(ctx, replica); err != nil {
			t.Fatal(err)
		}
	}
	for _, _, err := p.roles(); err != nil; _, _, err = p.roles() {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	ended, end := context.WithCancel(ctx)
	end()
	m := &many{play: p, prefix: "late"}
	failed := make(chan error, 1)
	go func() {
		failed <- m.while(ended, func(*member) error { t.Error("it happens all the same"); return nil })
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	case <-ctx.Done():
		t.Error("the step does not end")
	}
}
