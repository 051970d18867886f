package controller

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crashChild is the process that is killed: a controller whose sites own as many pages as their spec says.
func crashChild(url string) error {
	js, disconnect, err := childConnection(url)
	if err != nil {
		return err
	}
	defer disconnect()
	ctx := context.Background()
	sites, err := entity.NewClient[*site](ctx, js, crashConfig("Site", "sites"))
	if err != nil {
		return err
	}
	pages, err := entity.NewClient[*page](ctx, js, crashConfig("Page", "pages"))
	if err != nil {
		return err
	}
	var once sync.Once
	reconcile := manyPages(sites, pages)
	c, err := New("crash", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		once.Do(func() { fmt.Println(crashChildLeads) })
		return reconcile(ctx, req)
	}), Owns(pages), WithWorkers(4))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// childConnection is how a child process speaks to the server of its test.
func childConnection(url string) (js jetstream.JetStream, disconnect func(), err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(nc)
	return js, nc.Close, err
}

// crashChildLeads is what the child says when it begins to reconcile.
const crashChildLeads = "leading"

func crashConfig(kind, bucket string) entity.Config {
	return entity.Config{Kind: kind, Bucket: bucket, Storage: jetstream.MemoryStorage}
}

// manyPages gives each site spec.pages pages with its title.
func manyPages(sites *entity.Client[*site], pages *entity.Client[*page]) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return Result{}, nil
		}
		if err != nil {
			return Result{}, err
		}
		for i := range s.Spec.Pages {
			p := &page{ObjectMeta: metav1.ObjectMeta{Name: pageName(req.Key, i)}}
			if _, err := CreateOrUpdate(ctx, pages, p, func(p *page) error {
				p.Spec.Title = s.Spec.Title
				return nil
			}); err != nil {
				return Result{}, err
			}
		}
		owned, err := pages.Lister().OwnedBy("Site", req.Key)
		if err != nil {
			return Result{}, err
		}
		for _, p := range owned {
			if p.Name < pageName(req.Key, s.Spec.Pages) {
				continue
			}
			if err := pages.Delete(ctx, p.Name); err != nil && !apierrors.IsNotFound(err) {
				return Result{}, err
			}
		}
		s.Status.Note = s.Spec.Title
		return Result{}, sites.UpdateStatus(ctx, s)
	}
}

func pageName(site string, i int) string { return fmt.Sprintf("%s.%d", site, i) }

// TestSoakSIGKILLAtRandomPointsLosesNothing runs the controller as a child process and kills it, in 30 rounds or
// more, while sites are created, updated and deleted, by markers and without a trace. In the end the pages are
// exactly as the sites say, and there is no record of a site that is gone.
func TestSoakSIGKILLAtRandomPointsLosesNothing(t *testing.T) {
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("NAGI_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("NAGI_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	rounds := 30
	if s := os.Getenv("NAGI_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		rounds *= n
	}
	want := map[string]siteSpec{}
	for i := range 40 {
		change(t, w, rng, sites, want, i)
	}
	for range rounds {
		child := startCrashChild(t, w, sites)
		life := time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		for deleted, alive := 0, true; alive; {
			select {
			case <-life:
				alive = false
			case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
				before := len(want)
				if deleted < 8 { // more than that owed at once would be the brake's business
					change(t, w, rng, sites, want, rng.IntN(60))
				}
				if len(want) < before {
					deleted++
				}
			}
		}
		must(t, child.Process.Kill())
		_ = child.Wait() // killed, that is the point
	}
	child := startCrashChild(t, w, sites)
	defer func() {
		must(t, child.Process.Kill())
		_ = child.Wait()
	}()
	diff := "not looked yet"
	defer func() {
		if t.Failed() {
			t.Logf("last difference: %s", diff)
		}
	}()
	eventually(t, "pages and records are exactly as the sites say", func() bool {
		diff = worldDiff(t, sites, pages, want)
		return diff == ""
	})
}

// change creates, updates or deletes a site, sometimes so that nothing of it is left in the stream.
func change(t *testing.T, w *world, rng *rand.Rand, sites *entity.Client[*site], want map[string]siteSpec, i int) {
	t.Helper()
	ctx := t.Context()
	key := fmt.Sprintf("s%02d", i)
	_, exists := want[key]
	if exists && len(want) > 30 && rng.IntN(3) == 0 {
		if rng.IntN(2) == 0 {
			must(t, sites.Delete(ctx, key))
		} else {
			stream, err := w.js.Stream(ctx, "KV_sites")
			must(t, err)
			must(t, stream.Purge(ctx, jetstream.WithPurgeSubject("$KV.sites."+key)))
		}
		delete(want, key)
		return
	}
	spec := siteSpec{Title: strconv.FormatUint(rng.Uint64(), 36), Pages: rng.IntN(4)}
	s := &site{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: spec}
	if exists {
		current, err := sites.Get(ctx, key)
		must(t, err)
		current.Spec = spec
		must(t, sites.Update(ctx, current))
	} else {
		must(t, sites.Create(ctx, s))
	}
	want[key] = spec
}

// worldDiff says, by live reads, what differs from what the sites say; "" if nothing does.
func worldDiff(
	t *testing.T, sites *entity.Client[*site], pages *entity.Client[*page], want map[string]siteSpec,
) string {
	ctx := t.Context()
	wantPages, havePages := map[string]string{}, map[string]string{}
	for key, spec := range want {
		for i := range spec.Pages {
			wantPages[pageName(key, i)] = spec.Title
		}
	}
	live, err := pages.List(ctx)
	must(t, err)
	for _, p := range live {
		havePages[p.Name] = p.Spec.Title
	}
	if !maps.Equal(wantPages, havePages) {
		return fmt.Sprintf("pages: want %v, have %v", wantPages, havePages)
	}
	for i := range 60 {
		key := fmt.Sprintf("s%02d", i)
		record, err := sites.Record(ctx, key)
		_, exists := want[key]
		switch {
		case apierrors.IsNotFound(err) && !exists:
		case err != nil:
			return fmt.Sprintf("record of %s: %v", key, err)
		case !exists:
			return fmt.Sprintf("record of %s, which is gone: %+v", key, record)
		default:
			s, err := sites.Get(ctx, key)
			must(t, err)
			if strconv.FormatUint(record.ObservedRevision, 10) != s.ResourceVersion || s.Status.Note != s.Spec.Title {
				return fmt.Sprintf("record of %s: %+v, the site is at revision %s with status %+v", key, record,
					s.ResourceVersion, s.Status)
			}
		}
	}
	return ""
}

// startCrashChild runs this test binary again, as a controller (see TestMain), and returns when it works. The lease of
// the one that was killed is taken away, or each round would wait until it runs out.
func startCrashChild(t *testing.T, w *world, sites *entity.Client[*site]) *exec.Cmd {
	t.Helper()
	takeLeaseAway(t, sites)
	child := exec.Command(os.Args[0])
	child.Env = append(slices.Clone(os.Environ()), childEnv+"=crash", "NAGI_TEST_URL="+w.server.URL())
	child.Stderr = os.Stderr
	says, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(says).ReadString('\n')
	if err != nil || line != crashChildLeads+"\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	return child
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
