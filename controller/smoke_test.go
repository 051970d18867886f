package controller

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What is here needs real time: a process that is killed, and its socket, which the system closes.

// childConnection is how a child process speaks to the server of its test.
func childConnection(url string) (js jetstream.JetStream, disconnect func(), err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(nc)
	return js, nc.Close, err
}

// teardownChild is a controller of sites that own pages. It kills itself in a teardown, when one page is deleted.
func teardownChild(url string) error {
	js, disconnect, err := childConnection(url)
	if err != nil {
		return err
	}
	defer disconnect()
	ctx := context.Background()
	sites, err := entity.NewClient[*site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites", BindOnly: true})
	if err != nil {
		return err
	}
	pageClient, err := entity.NewClient[*page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages", BindOnly: true})
	if err != nil {
		return err
	}
	pages := &hooked{Client: pageClient}
	pages.onDelete = func(_ string, remove func() error) error {
		err := remove()
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		return err
	}
	c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// TestATeardownSurvivesSIGKILL: what other crashes leave is played in virtual time.
func TestATeardownSurvivesSIGKILL(t *testing.T) {
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	child := exec.Command(os.Args[0])
	child.Env = append(slices.Clone(os.Environ()), childEnv+"=teardown", "NAGI_TEST_URL="+w.server.URL())
	child.Stderr = os.Stderr
	must(t, child.Start())
	died := make(chan error, 1)
	go func() { died <- child.Wait() }()
	t.Cleanup(func() { _ = child.Process.Kill() }) // unless it is dead
	must(t, sites.Create(t.Context(), siteWithPages("home", 3)))
	eventuallyReason(t, sites, "home", entity.ReasonSynced)
	must(t, sites.Delete(t.Context(), "home"))
	exit, is := errors.AsType[*exec.ExitError](receive(t, "its end", died))
	if !is || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, not by its SIGKILL", exit)
	}
	if n := count(t, pages); n != 2 || noRecord(t, sites, "home")() {
		t.Fatalf("it left %d pages, want 2, and no anchor: %v", n, noRecord(t, sites, "home")())
	}
	takeLeaseAway(t, sites)
	c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
	must(t, err)
	w.run(c)
	natstest.Eventually(t, "the teardown is finished", func() bool {
		return noRecord(t, sites, "home")() && count(t, pages) == 0
	})
}

// takeLeaseAway frees the lease of a process that is gone. If it were deleted, others would leave it to its holder.
func takeLeaseAway(t *testing.T, sites *entity.Client[*site]) {
	t.Helper()
	_, revision, err := sites.Records().GetReserved(t.Context(), record.KeyLease)
	if err == nil {
		_, err = sites.Records().PutReserved(t.Context(), record.KeyLease,
			[]byte(`{"holderIdentity":"","leaseDurationSeconds":1}`), revision)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
