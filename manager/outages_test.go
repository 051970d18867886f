package manager

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// said collects the lines of a log that are printed with klog's default verbosity, with the time of each.
type said struct {
	began time.Time
	lines []string
	mu    chan struct{}
}

func newSaid() (context.Context, *said) {
	s := &said{began: time.Now(), mu: make(chan struct{}, 1)}
	log := funcr.New(func(prefix, args string) {
		s.mu <- struct{}{}
		defer func() { <-s.mu }()
		s.lines = append(s.lines, fmt.Sprintf("%8.3f %s %s", time.Since(s.began).Seconds(), prefix, args))
	}, funcr.Options{})
	return klog.NewContext(context.Background(), log), s
}

// take returns what was said since it was called last.
func (s *said) take() []string {
	s.mu <- struct{}{}
	defer func() { <-s.mu }()
	taken := s.lines
	s.lines = nil
	return taken
}

// process is a replica as README has it: two controllers that lead together, with events, probes and the service.
type process struct {
	*run
	m     *Manager
	log   *said
	ready func() probes.Answer
	c     [2]*controller.Controller[*site]
}

func startProcess(t *testing.T, cfg Config) *process {
	t.Helper()
	ctx, log := newSaid()
	cfg.Name, cfg.GracePeriod = "fleet", 5*time.Second
	cfg.Lease = &Lease{Bucket: "leases", Key: "fleet"}
	cfg.Options = append(cfg.Options, natstest.Dialer())
	m, err := New(ctx, cfg)
	must(t, err)
	p := &process{m: m, log: log}
	logger := klog.FromContext(ctx)
	events, err := m.NewRecorder(recorder.Config{Logger: &logger})
	must(t, err)
	health := probes.New()
	p.ready = health.Ready
	own, _ := natstest.Connect(t, cfg.URL, nats.UserInfo(cfg.User, cfg.Password), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		logger.Error(err, "nats.go")
	}))
	asked, err := service.New(service.Config{Conn: own})
	must(t, err)
	for i, cfg := range []entity.Config{{Kind: "Site", Bucket: "sites"}, {Kind: "Page", Bucket: "pages"}} {
		client, err := Client[*site](ctx, m, cfg)
		must(t, err)
		name := []string{"sites", "pages"}[i]
		p.c[i], err = controller.New(name, client, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				return controller.Result{}, nil
			}), controller.WithEventRecorder(events), asked.Controller())
		must(t, err)
		health.Add(name, p.c[i])
		must(t, m.Add(p.c[i]))
	}
	must(t, m.Add(asked))
	p.run = startIn(t, ctx, m)
	return p
}

// outages are what a fleet of two replicas goes through.
var outages = map[string]struct {
	happens func(t *testing.T, s *natstest.Server)
	// leader and other are how many lines of the log each replica has for it, until a minute after its end.
	leader, other int
	says          []string // what the lines of the leader have, in this order
}{
	"the server is away for 2 s": {
		happens: stopped(2 * time.Second), leader: 2, other: 2, says: []string{"is lost", "Reconnected"},
	},
	"the server is away for 20 s": {
		happens: stopped(20 * time.Second), leader: 4, other: 2,
		says: []string{"is lost", "lease of the process was lost", "Reconnected", "This process leads"},
	},
	"the bucket is removed and made anew": {
		happens: remade("sites", 20*time.Second), leader: 2, other: 2,
		says: []string{"the bucket does not exist", "Source works again"},
	},
	"the status bucket is removed and made anew": {
		happens: remade("sites-status", 20*time.Second), leader: 4, other: 2,
		says: []string{
			"the bucket does not exist", "_nagi.lease", "Source works again", "Source works again",
		},
	},
	"the right to write the lease of the process is taken and given back": {
		happens: denied(8*time.Second, "$KV.leases.>"), leader: 3, other: 0,
		says: []string{"denies", "cannot be read or written", "can be read and written again"},
	},
	"the right to write records is taken and given back": {
		happens: denied(20*time.Second, "$KV.sites-status.>"), leader: 5, other: 0,
		says: []string{
			"denies", "$KV.sites-status.s0", "$KV.sites-status._nagi.lease", "Source is reported here no more", "Source works again",
		},
	},
	"the right to read records and leases is taken and given back": {
		happens: denied(20*time.Second, "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"), leader: 0, other: 3,
	},
	"the status bucket is full": {
		happens: full("sites-status", 20*time.Second), leader: 2, other: 0,
		says: []string{"raise max_bytes", "Source works again"},
	},
}

// admin is what an operator works with.
func admin(t *testing.T, s *natstest.Server) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, s.URL(), nats.UserInfo("admin", "x"))
	return js
}

// denied is a user whose rights to publish to some subjects are taken for a while, in which documents are written.
func denied(lasts time.Duration, subjects ...string) func(t *testing.T, s *natstest.Server) {
	return func(t *testing.T, s *natstest.Server) {
		t.Helper()
		must(t, s.Reload(withRights(subjects...)))
		writeSites(t, admin(t, s))
		time.Sleep(lasts)
		must(t, s.Reload(withRights()))
	}
}

func writeSites(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for i := range 20 {
		_, err := js.Publish(t.Context(), fmt.Sprint("$KV.sites.s", i), []byte(`{}`))
		must(t, err)
	}
}

// remade is a bucket that is removed and, after a while, made anew with the settings that it had.
func remade(bucket string, after time.Duration) func(t *testing.T, s *natstest.Server) {
	return func(t *testing.T, s *natstest.Server) {
		t.Helper()
		js := admin(t, s)
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		must(t, err)
		must(t, js.DeleteStream(t.Context(), "KV_"+bucket))
		time.Sleep(after)
		_, err = js.CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
	}
}

// full is a bucket that takes no writes for a while.
func full(bucket string, lasts time.Duration) func(t *testing.T, s *natstest.Server) {
	return func(t *testing.T, s *natstest.Server) {
		t.Helper()
		js := admin(t, s)
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		must(t, err)
		had := stream.CachedInfo().Config
		limited := had
		limited.MaxBytes = 1
		_, err = js.UpdateStream(t.Context(), limited)
		must(t, err)
		writeSites(t, js)
		time.Sleep(lasts)
		_, err = js.UpdateStream(t.Context(), had)
		must(t, err)
	}
}

// TestAnOutageIsToldInFewLinesAndEachIsTrue of each replica.
func TestAnOutageIsToldInFewLinesAndEachIsTrue(t *testing.T) {
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				isolated(t)
				beside := catchBackground(t)
				s := natstest.Start(t, natstest.WithConfig(withRights()))
				fleet := Config{URL: s.URL(), User: "fleet", Password: "x"}
				leader := startProcess(t, fleet)
				time.Sleep(20 * time.Second)
				// The leader is the first that finds the server again, and so leads again.
				fleet.Options = []nats.Option{nats.ReconnectWait(3 * time.Second)}
				other := startProcess(t, fleet)
				time.Sleep(time.Minute)
				leader.log.take()
				other.log.take()
				beside.take()
				outage.happens(t, s)
				time.Sleep(time.Minute)
				leader.wants(t, "the leader", outage.leader, outage.says)
				other.wants(t, "the other replica", outage.other, nil)
				if lines := beside.take(); len(lines) > 0 {
					t.Errorf("of no replica:\n%s", strings.Join(lines, "\n"))
				}
				must(t, leader.stop())
				must(t, other.stop())
			})
		})
	}
}

// wants is for what a replica has said of an outage.
func (p *process) wants(t *testing.T, who string, lines int, says []string) {
	t.Helper()
	said := p.log.take()
	if len(said) != lines || lines > 5 {
		t.Errorf("%s says %d lines, want %d:\n%s", who, len(said), lines, strings.Join(said, "\n"))
		return
	}
	for i, want := range says {
		if !strings.Contains(said[i], want) {
			t.Errorf("line %d of %s is\n%s\nwant one with %q", i+1, who, said[i], want)
		}
	}
	for _, line := range said {
		if strings.Contains(line, `\n`) {
			t.Errorf("a line break in %s", line)
		}
	}
	if answer := p.ready(); !answer.OK || len(answer.Problems) > 0 {
		t.Errorf("%s is not ready after it: %+v", who, answer)
	}
}

// stopped is a server that is stopped for a while.
func stopped(lasts time.Duration) func(t *testing.T, s *natstest.Server) {
	return func(t *testing.T, s *natstest.Server) {
		t.Helper()
		s.Stop()
		time.Sleep(lasts)
		must(t, s.Start())
	}
}

// catchBackground collects what is logged without a context.
func catchBackground(t *testing.T) *said {
	t.Helper()
	ctx, s := newSaid()
	klog.SetLoggerWithOptions(klog.FromContext(ctx), klog.ContextualLogger(true))
	t.Cleanup(klog.ClearLogger)
	return s
}

// TestALostConnectionIsOneProblem of each controller, and not one of each thing that needs it.
func TestALostConnectionIsOneProblem(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		p := startProcess(t, Config{URL: s.URL()})
		time.Sleep(20 * time.Second)
		s.Stop()
		began := time.Now()
		for time.Since(began) < 20*time.Second {
			time.Sleep(1500 * time.Millisecond)
			answer := p.ready()
			if answer.OK || len(answer.Problems) != 2 {
				t.Fatalf("after %v there are the problems %+v, want one of each controller", time.Since(began), answer)
			}
			for _, problem := range answer.Problems {
				if problem.What != "connection to NATS" || !strings.Contains(problem.Reason, "is down since 2000-01-01T00:00:20Z") {
					t.Errorf("after %v: %+v", time.Since(began), problem)
				}
			}
		}
		must(t, s.Start())
		natstest.Eventually(t, "all is well", func() bool { return p.ready().OK })
		must(t, p.stop())
	})
}

// withRights lets the user "fleet" publish to all but the denied subjects.
func withRights(denied ...string) func(o *server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "x"}, {
			Username: "fleet", Password: "x",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: denied}},
		}}
	}
}

// TestAMissingRightIsToldOnceForAllKeys, in the log and in what is degraded, and is gone when it is granted.
func TestAMissingRightIsToldOnceForAllKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := natstest.Start(t, natstest.WithConfig(withRights()))
		ctx, log := newSaid()
		m, err := New(ctx, Config{
			URL: s.URL(), User: "fleet", Password: "x", Options: []nats.Option{natstest.Dialer()}, GracePeriod: time.Second,
		})
		must(t, err)
		defer m.Close(context.Background())
		homes, err := Client[*site](ctx, m, sites())
		must(t, err)
		disks, err := Client[*site](ctx, m, entity.Config{Kind: "Disk", Bucket: "disks", Storage: jetstream.MemoryStorage})
		must(t, err)
		c, err := controller.New("sites", homes, controller.ReconcilerFunc(
			func(ctx context.Context, r controller.Request) (controller.Result, error) {
				_, err := controller.CreateOrUpdate(ctx, disks, newSite(r.Key, ""), func(*site) error { return nil })
				return controller.Result{}, err
			}), controller.Owns(disks))
		must(t, err)
		must(t, m.Add(c))
		health := probes.New()
		health.Add("sites", c)
		r := startIn(t, ctx, m)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		must(t, s.Reload(withRights("$KV.disks.>")))
		log.take()
		for i := range 61 {
			must(t, homes.Create(ctx, newSite(fmt.Sprint("s", i), "x")))
		}
		time.Sleep(2 * time.Second)
		answer := health.Ready()
		if answer.OK || len(answer.Problems) != 1 || !strings.Contains(answer.Problems[0].Reason, "$KV.disks.>") {
			t.Errorf("within two seconds: %+v, want one problem that names the right", answer)
		}
		time.Sleep(time.Minute)
		if lines := log.take(); len(lines) > 3 {
			t.Errorf("%d lines of a minute:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		must(t, s.Reload(withRights()))
		natstest.Eventually(t, "it is well again", func() bool { return health.Ready().OK })
		time.Sleep(10 * time.Minute)
		if lines := log.take(); len(lines) != 1 || !strings.Contains(lines[0], "works again") {
			t.Errorf("of the end:\n%s", strings.Join(lines, "\n"))
		}
		must(t, r.stop())
	})
}
