package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// lines are those of one replica's log.
type lines struct {
	mu   sync.Mutex
	said []string
}

// about returns the lines since the last call that have this text.
func (l *lines) about(text string) (about []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.said {
		if strings.Contains(line, text) {
			about = append(about, line)
		}
	}
	l.said = nil
	return about
}

func (l *lines) into(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said = append(l.said, prefix+args)
	}, funcr.Options{LogTimestamp: true}))
}

// leaseOutages are ways in which a lease cannot be kept for a while.
var leaseOutages = map[string]struct {
	happens func(w *world, p *natstest.Proxy) (ends func())
	says    string // the line of the replica that led
}{
	"the bucket is removed and made anew": {
		says: "does not exist",
		happens: func(w *world, _ *natstest.Proxy) func() {
			stream, err := w.js.Stream(w.t.Context(), "KV_sites-status")
			must(w.t, err)
			must(w.t, w.js.DeleteStream(w.t.Context(), "KV_sites-status"))
			return func() {
				_, err = w.js.CreateStream(w.t.Context(), stream.CachedInfo().Config)
				must(w.t, err)
			}
		},
	},
	"the rights are taken and given back": {
		says: "$KV.sites-status._nagi.lease",
		happens: func(w *world, _ *natstest.Proxy) func() {
			must(w.t, w.server.Reload(denyingFleet("$KV.sites-status.>", "$JS.API.STREAM.MSG.GET.KV_sites-status")))
			return func() { must(w.t, w.server.Reload(denyingFleet())) }
		},
	},
	"the network swallows all": {
		says: "no answer",
		happens: func(w *world, p *natstest.Proxy) func() {
			p.Blackhole()
			return p.Resume
		},
	},
	"answers come too late": {
		says: "no answer",
		happens: func(w *world, p *natstest.Proxy) func() {
			p.Delay(3*time.Second, natstest.FromServer)
			return func() { p.Delay(0, natstest.FromServer) }
		},
	},
	"messages are too large": {
		says: "max_msg_size",
		happens: func(w *world, _ *natstest.Proxy) func() {
			stream, err := w.js.Stream(w.t.Context(), "KV_sites-status")
			must(w.t, err)
			had := stream.CachedInfo().Config
			small := had
			small.MaxMsgSize = 10
			_, err = w.js.UpdateStream(w.t.Context(), small)
			must(w.t, err)
			return func() {
				_, err = w.js.UpdateStream(w.t.Context(), had)
				must(w.t, err)
			}
		},
	},
}

// denyingFleet has the user "fleet" publish to all but some subjects.
func denyingFleet(subjects ...string) func(o *server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "x"}, {
			Username: "fleet", Password: "x",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: subjects}},
		}}
	}
}

// connectAs connects as a user of denyingFleet.
func connectAs(t *testing.T, user, url string) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, strings.Replace(url, "nats://", fmt.Sprintf("nats://%s:x@", user), 1))
	return js
}

// TestAnOutageOfTheLeaseIsOneLine when it begins, and one when it is over, of each replica that it concerns.
func TestAnOutageOfTheLeaseIsOneLine(t *testing.T) {
	for name, outage := range leaseOutages {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				klog.SetLogger(klog.FromContext(new(lines).into(t.Context()))) // of what has no context
				t.Cleanup(klog.ClearLogger)
				s := natstest.Start(t, natstest.WithConfig(denyingFleet()))
				admin := &world{t: t, server: s, js: connectAs(t, "admin", s.URL())}
				proxy := natstest.StartProxy(t, s.URL())
				var logs [2]lines
				for i := range logs {
					w := &world{t: t, server: s, js: connectAs(t, "fleet", proxy.URL())}
					c, err := New("sites", w.client("Site", "sites", func(cfg *entity.Config) {
						cfg.Storage = jetstream.FileStorage
					}), new(calls).reconciler(nil))
					must(t, err)
					w.run(runsIn(logs[i].into, c))
					time.Sleep(30 * time.Second)
				}
				for round := range 2 {
					logs[0].about("")
					logs[1].about("")
					ends := outage.happens(admin, proxy)
					time.Sleep(40 * time.Second)
					ends()
					time.Sleep(time.Minute)
					for i := range logs {
						got := logs[i].about(`"source"="lease (bucket sites-status)"`)
						if len(got) != 2 || !strings.Contains(got[0], "Source degraded") ||
							!strings.Contains(got[1], "Source works again") {
							t.Errorf("replica %d says %d lines:\n%s", i, len(got), strings.Join(got, "\n"))
						}
						if round == 0 && i == 0 && (len(got) == 0 || !strings.Contains(got[0], outage.says)) {
							t.Errorf("it says\n%s\nwant %q first", strings.Join(got, "\n"), outage.says)
						}
					}
				}
			})
		})
	}
}

// tellingRun is a controller that runs with a log of its own.
type tellingRun struct {
	into func(context.Context) context.Context
	c    *Controller[*site]
}

func runsIn(into func(context.Context) context.Context, c *Controller[*site]) tellingRun {
	return tellingRun{into, c}
}

// Run runs it.
func (r tellingRun) Run(ctx context.Context) error { return r.c.Run(r.into(ctx)) }
