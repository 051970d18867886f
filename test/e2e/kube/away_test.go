package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheAPIServerMayDieAtAnyMoment: it is killed and started again while sites are created, changed and deleted. In
// the end each site has its objects, once, and nothing else is left. Meanwhile reconciles without Kubernetes go on.
func TestTheAPIServerMayDieAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kubetest.Start(t))
	maps := w.maps()
	var seen calls
	sawDegraded := make(chan error, 1000)
	c := w.applied(func(ctx context.Context, key string) error {
		if key == "fine" {
			return nil
		}
		s, err := w.sites.Lister().Get(key)
		if err != nil {
			return err
		}
		for i := range 2 {
			if _, err := maps.Apply(ctx, w.configMap(fmt.Sprintf("%s-%d", key, i), s.Spec.Title)); err != nil {
				return err
			}
		}
		return nil
	}, &seen, maps.Owns(), controller.WithWorkers(4), newsOfKube(sawDegraded))
	w.run(c)
	const count, rounds = 20, 3
	titles := map[string]string{}
	for round := range rounds {
		down := make(chan struct{})
		go func() {
			defer close(down)
			w.server.Kill()
			if round == 0 {
				// Long enough that the informer fails to list.
				w.othersGoOn(&seen)
				select {
				case <-sawDegraded:
				case <-time.After(patience):
					t.Error("nobody said that the API server is away")
				}
			}
			if err := w.server.Restart(); err != nil {
				t.Error(err)
			}
		}()
		for i := range count {
			key := fmt.Sprint("site-", i)
			switch _, there := titles[key]; {
			case !there:
				s := newSite(key)
				s.Spec.Title = fmt.Sprint("round-", round)
				must(t, w.sites.Create(t.Context(), s))
				titles[key] = s.Spec.Title
			case (i+round)%3 == 0:
				must(t, w.sites.Delete(t.Context(), key))
				delete(titles, key)
			default:
				titles[key] = fmt.Sprint("round-", round)
				must(t, w.sites.Patch(t.Context(), key, fmt.Appendf(nil, `{"spec":{"title":%q}}`, titles[key])))
			}
		}
		<-down
	}
	natstest.Eventually(t, "Kubernetes agrees with the sites", func() bool {
		list, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2*len(titles) {
			return false
		}
		for key, title := range titles {
			for i := range 2 {
				m := w.liveMap(fmt.Sprintf("%s-%d", key, i))
				if m == nil || m.Data["value"] != title {
					return false
				}
			}
		}
		return true
	})
	natstest.Eventually(t, "all is calm", func() bool { s := c.Stats(); return s.Failing == 0 && len(s.Degraded) == 0 })
}

// TestAnAPIServerThatIsAwayIsAClearError.
func TestAnAPIServerThatIsAwayIsAClearError(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kubetest.Start(t))
	maps := w.maps(manager)
	w.server.Kill()
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	says(t, err, "apply configmaps/v1", w.key("settings"), "the API server cannot be reached")
	must(t, w.server.Restart())
	_, err = maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
}

// TestWhenTheAPIServerIsBackNobodyWaitsForHisBackoff, which is ten minutes here: writes and deletes go on at once.
func TestWhenTheAPIServerIsBackNobodyWaitsForHisBackoff(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kubetest.Start(t))
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		s, err := w.sites.Lister().Get(key)
		if err == nil {
			_, err = maps.Apply(ctx, w.configMap(key, s.Spec.Title))
		}
		return err
	}, &seen, maps.Owns(), controller.WithBackoff(10*time.Minute, 10*time.Minute))
	w.run(c)
	for _, key := range []string{"changed", "deleted"} {
		must(t, w.sites.Create(t.Context(), newSite(key)))
		natstest.Eventually(t, "it is there", func() bool { _, err := maps.Get(w.key(key)); return err == nil })
	}
	natstest.Eventually(t, "all is calm", func() bool { s := c.Stats(); return s.Running == 0 && s.Ready == [3]int{} })
	w.server.Kill()
	must(t, w.sites.Patch(t.Context(), "changed", []byte(`{"spec":{"title":"two"}}`)))
	must(t, w.sites.Delete(t.Context(), "deleted"))
	natstest.Eventually(t, "both have failed", func() bool { return c.Stats().Failing == 2 })
	must(t, w.server.Restart())
	natstest.Eventually(t, "both are done", func() bool {
		return w.liveMap("changed").Data["value"] == "two" && w.liveMap("deleted") == nil && c.Stats().TornDown == 1
	})
}

// TestAnOutageDoesNotCountAgainstThoseWhoFailedInIt: an API server that has just started refuses ordinary users for a
// moment. If a long outage counted, a key that meets this refusal would wait many times as long.
func TestAnOutageDoesNotCountAgainstThoseWhoFailedInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	var refusals atomic.Int32
	cfg := w.server.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			switch {
			case away.Load():
				return nil, syscall.ECONNREFUSED
			case req.Method == http.MethodPatch && refusals.Add(-1) >= 0:
				return forbidden(req), nil
			}
			return next.RoundTrip(req)
		})
	})
	w.use(cfg)
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap(key, "one"))
		return err
	}, &seen, maps.Owns(), controller.WithBackoff(500*time.Millisecond, 10*time.Minute))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("first")))
	natstest.Eventually(t, "all is calm", func() bool { return w.liveMap("first") != nil && c.Stats().Running == 0 })
	away.Store(true)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it has failed often", func() bool { return seen.count("home") == 5 })
	refusals.Store(3)
	away.Store(false)
	natstest.Eventually(t, "it is done, after three refusals", func() bool { return w.liveMap("home") != nil })
	if n := refusals.Load(); n >= 0 {
		t.Errorf("it was not refused three times: %d are left", n)
	}
}

// TestAnAPIServerThatDoesNotAnswerIsAway, like a machine that is switched off or behind a firewall: requests run into a
// timeout, the connection's or the reconcile's own.
func TestAnAPIServerThatDoesNotAnswerIsAway(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) error{
		"dial timeout": func(*http.Request) error {
			_, err := (&net.Dialer{Timeout: time.Nanosecond}).Dial("tcp", "127.0.0.1:1")
			return err
		},
		"silence": func(req *http.Request) error {
			<-req.Context().Done()
			return req.Context().Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var away atomic.Bool
			cfg := w.server.Config()
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if away.Load() {
						return nil, answer(req)
					}
					return next.RoundTrip(req)
				})
			})
			w.use(cfg)
			maps := w.maps()
			var seen calls
			c := w.applied(func(ctx context.Context, key string) error {
				_, err := maps.Apply(ctx, w.configMap(key, "one"))
				return err
			}, &seen, maps.Owns(), controller.WithReconcileTimeout(2*time.Second),
				controller.WithBackoff(10*time.Minute, 10*time.Minute))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("first")))
			natstest.Eventually(t, "all is calm", func() bool { return w.liveMap("first") != nil && c.Stats().Running == 0 })
			away.Store(true)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "its source is degraded", func() bool { return len(kubeProblems(c)) == 1 })
			for _, err := range kubeProblems(c) {
				says(t, err, "the API server did not answer in time")
			}
			away.Store(false)
			natstest.Eventually(t, "it is done, and does not wait for its backoff", func() bool {
				return w.liveMap("home") != nil
			})
		})
	}
}

// forbidden returns the answer of an API server that has not loaded its rules yet.
func forbidden(req *http.Request) *http.Response {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
		`"reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
	}
}
