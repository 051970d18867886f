//go:build unix

package service

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// replicaOf is the variable with the URL of the server, in the environment of a process that is a replica.
const replicaOf = "NAGI_TEST_REPLICA_OF"

// shortLease is lost within seconds, which pass here.
var shortLease = controller.WithLeaseTiming(controller.LeaseTiming{
	Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond,
})

// runReplica is a process with the controller of sites. It says each reconcile that was asked for by hand, and that it
// leads.
func runReplica(url string) error {
	ctx := context.Background()
	connect := func(user string) (*nats.Conn, error) {
		return nats.Connect(url, nats.UserInfo(user, "x"), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
	}
	own, err := connect("service")
	if err != nil {
		return err
	}
	nc, err := connect("admin")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	client, err := entity.NewClient[*site](ctx, js, sitesConfig)
	if err != nil {
		return err
	}
	s, err := New(Config{Conn: own, ReadRate: 1e6, ActRate: 1e6})
	if err != nil {
		return err
	}
	c, err := controller.New("sites", client, controller.ReconcilerFunc(
		func(_ context.Context, req controller.Request) (controller.Result, error) {
			if req.Operations.Has(controller.OperationManual) {
				fmt.Println("acted")
			}
			return controller.Result{}, nil
		}), s.Controller(), shortLease)
	if err != nil {
		return err
	}
	go func() { _ = s.Run(ctx) }()
	go func() {
		for !c.Stats().Leading {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("leads")
	}()
	return c.Run(ctx)
}

// TestAProcessThatHangsKeepsNoRequestFromTheNextLeader, in real time: a process that SIGSTOP stops keeps its sockets,
// which the kernel goes on to fill, and no virtual wire does all that. When it wakes it reads what it was sent, and does
// nothing of it.
func TestAProcessThatHangsKeepsNoRequestFromTheNextLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	w := newWorld(t)
	w.client(sitesConfig)
	w.put("sites", "shop.home", `{}`)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), replicaOf+"="+w.srv.URL())
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	w.must(err)
	w.must(child.Start())
	said := make(chan string, 1000)
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	defer func() {
		_ = child.Process.Kill()
		for range said { // until it has ended
		}
		_ = child.Wait()
	}()
	if line := <-said; line != "leads" {
		t.Fatalf("the process says %q", line)
	}
	s := w.service()
	near := w.runs(s, w.controller("sites", s, sitesConfig, shortLease))
	natstest.Eventually(w, "the other waits", func() bool {
		return near.Explain("shop/home").State == controller.StateStandby
	})

	w.must(child.Process.Signal(syscall.SIGSTOP))
	natstest.Eventually(w, "the other leads", near.served().engine.Leads)
	acts := w.gathered(20, "nagi.sites.act.reconcile", `{"key":"shop/home"}`)
	reads := w.gathered(20, "nagi.sites.read.explain", `{"key":"shop/home"}`)
	for i := range 20 {
		for _, answers := range []*nats.Subscription{acts, reads} {
			msg, err := answers.NextMsg(10 * time.Second)
			if err != nil || msg.Header.Get("Nats-Service-Error-Code") != "" {
				t.Fatalf("answer %d: %v, error %v", i, msg, err)
			}
		}
	}

	w.must(child.Process.Signal(syscall.SIGCONT))
	natstest.Eventually(w, "the process has read what it was sent, and answers about itself", func() bool {
		answers := w.gathered(1, "$SRV.PING.nagi", "")
		_, first := answers.NextMsg(time.Second)
		_, second := answers.NextMsg(time.Second)
		return first == nil && second == nil
	})
	// Three times what a standby waits before it says anything.
	late := time.After(3 * near.served().patience())
	for waits := true; waits; {
		select {
		case line := <-said:
			t.Errorf("the former leader says %q", line)
		case <-late:
			waits = false
		}
	}
	for _, answers := range []*nats.Subscription{acts, reads} {
		if n, _, err := answers.Pending(); n != 0 || err != nil {
			t.Errorf("the former leader answers %d requests, error %v", n, err)
		}
	}
}
