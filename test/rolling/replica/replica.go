// Package replica is one replica of a controller, for the tests of package rolling. They run it in this tree and in the
// tree of the code before the rebuild. Only controller.go differs between the two.
//
// It reports on standard output what it does, one JSON object a line. SIGTERM stops it gracefully. It ends when its
// standard input ends, so that it does not outlive the test.
package replica

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A site owns one page with its title, and a disk behind an API if spec.disk is positive.
type (
	siteSpec struct {
		Title string `json:"title,omitempty"`
		Disk  int    `json:"disk,omitempty"`
	}
	siteStatus struct {
		Title string `json:"title,omitempty"`
		By    string `json:"by,omitempty"` // the replica that first reconciled this title
	}
	site = entity.Object[siteSpec, siteStatus]
	page = entity.Object[siteSpec, siteStatus]
)

// settings say how the test wants this replica to behave.
type settings struct {
	url, cloud, name       string
	duration, renew, retry time.Duration // of the lease
	resync, work, again    time.Duration
	refuseDeletes          bool
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("replica", flag.ContinueOnError)
	flags.StringVar(&s.url, "url", "", "of the NATS server")
	flags.StringVar(&s.cloud, "cloud", "", "URL of the API with the disks; without it there are none")
	flags.StringVar(&s.name, "name", "", "written to the status as `by`")
	flags.DurationVar(&s.duration, "lease-duration", 2*time.Second, "")
	flags.DurationVar(&s.renew, "lease-renew", 1500*time.Millisecond, "")
	flags.DurationVar(&s.retry, "lease-retry", 200*time.Millisecond, "")
	flags.DurationVar(&s.resync, "resync", 10*time.Minute, "")
	flags.DurationVar(&s.work, "work", 0, "how long a reconcile takes")
	flags.DurationVar(&s.again, "again", 0, "how soon each site is reconciled again; 0 is never")
	flags.BoolVar(&s.refuseDeletes, "refuse-deletes", false, "fail each reconcile of a delete")
	return s, flags.Parse(args)
}

// Main runs a replica as the arguments say, until the process is told to stop.
func Main(args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go dieWithParent()
	return run(ctx, s)
}

// dieWithParent ends the process with its parent: its standard input is a pipe that only the parent holds open.
func dieWithParent() {
	_, _ = os.Stdin.Read(make([]byte, 1)) // only the end of the pipe ever comes
	os.Exit(3)
}

// event is a line of the output.
type event struct {
	Time  time.Time `json:"time"`
	Began *attempt  `json:"began,omitempty"`
	Ended *attempt  `json:"ended,omitempty"`
	State *state    `json:"state,omitempty"`
}

// attempt is one reconcile.
type attempt struct {
	Key        string `json:"key"`
	Operations string `json:"operations"`
	Exists     bool   `json:"exists"`
	Title      string `json:"title"` // of the document, or of the last known one
	By         string `json:"by"`    // from the status as the reconcile found it
	Error      string `json:"error"`
}

// state is the part of the controller's Stats that tests read.
type state struct {
	Leading  bool      `json:"leading"`
	Idle     bool      `json:"idle"`
	Sweeps   uint64    `json:"sweeps"`
	TornDown uint64    `json:"tornDown"`
	Engaged  bool      `json:"engaged"` // the brake
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason"`
	Held     int       `json:"held"`
	Released bool      `json:"released"`
}

// controller is what controller.go makes of either version of the code.
type controller struct {
	run            func(context.Context) error
	state          func() state
	lastKnown      func(ctx context.Context, key string) (*site, error)
	setStatus      func(ctx context.Context, obj entity.IEntity) error
	createOrUpdate func(ctx context.Context, p *page, mutate func(*page) error) error
}

type replica struct {
	settings
	sites *entity.Client[*site]
	pages *entity.Client[*page]
	disks disks
	controller

	mu  sync.Mutex
	out *json.Encoder
}

func run(ctx context.Context, s settings) error {
	nc, err := nats.Connect(s.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	r := &replica{settings: s, disks: disks{s.cloud}, out: json.NewEncoder(os.Stdout)}
	if r.sites, err = newClient(ctx, js, "Site", "sites"); err != nil {
		return err
	}
	if r.pages, err = newClient(ctx, js, "Page", "pages"); err != nil {
		return err
	}
	if r.controller, err = newController(r); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	go r.watch(watching)
	return r.run(ctx)
}

// newClient makes a client that soon notices changes without an event. Its records keep only small documents.
func newClient(ctx context.Context, js jetstream.JetStream, kind, bucket string) (*entity.Client[*site], error) {
	config := entity.Config{Kind: kind, Bucket: bucket, CompareInterval: 200 * time.Millisecond, LastDocumentLimit: 512}
	return entity.NewClient[*site](ctx, js, config)
}

func (r *replica) say(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = time.Now()
	_ = r.out.Encode(e) // it fails only when the parent is gone
}

// watch reports each change of the state that it sees.
func (r *replica) watch(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := r.state()
	r.say(event{State: &last})
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := r.state(); now != last {
			last = now
			r.say(event{State: &now})
		}
	}
}
