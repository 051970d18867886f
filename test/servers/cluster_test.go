package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/internal/ports"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clustered are the versions that also run as a cluster, which takes half a minute.
var clustered = []string{"nats210", "nats211", "current"}

// members is how many servers a cluster has.
const members = 3

// newCluster starts a cluster of a version, and returns a user of it. Buckets are on all of its members.
func newCluster(t *testing.T, v version) (w *world, cluster [members]*process) {
	t.Helper()
	var routes [members]string
	for i := range members {
		port, err := ports.Claim()
		must(t, err)
		t.Cleanup(func() { ports.Release(port) })
		routes[i] = "nats://" + ports.Address(port)
	}
	var urls []string
	for i := range members {
		cluster[i] = newProcess(t, v, "-js", "-sd", t.TempDir(), "-n", fmt.Sprint("n", i), "--cluster_name", "c",
			"--cluster", routes[i], "--routes", strings.Join(routes[:], ","), "--no_advertise")
		urls = append(urls, cluster[i].url())
	}
	w = &world{t: t, v: v, url: strings.Join(urls, ","), replicas: members}
	_, w.js = natstest.Connect(t, w.url)
	natstest.Eventually(t, "the cluster places streams on all members", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.js.CreateStream(ctx, jetstream.StreamConfig{Name: "ready", Replicas: members})
		return err == nil
	})
	w.sites, w.pages = w.client(w.js, "Site", "sites"), w.client(w.js, "Page", "pages")
	return w, cluster
}

// whole waits until each stream has a leader, and all of its replicas are as far as it is.
func (w *world) whole() {
	w.t.Helper()
	natstest.Eventually(w.t, "all replicas are current", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		streams := w.js.ListStreams(ctx)
		for info := range streams.Info() {
			current := func(p *jetstream.PeerInfo) bool { return p.Current && !p.Offline }
			if c := info.Cluster; c == nil || c.Leader == "" || len(c.Replicas) != members-1 ||
				!current(c.Replicas[0]) || !current(c.Replicas[1]) {
				return false
			}
		}
		return streams.Err() == nil
	})
}

// leader returns the member that leads a stream.
func (w *world) leader(name string) (member int) {
	w.t.Helper()
	natstest.Eventually(w.t, "the stream has a leader", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		stream, err := w.js.Stream(ctx, name)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		_, err = fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "n%d", &member)
		return err == nil
	})
	return member
}

// TestAClusterLosesItsLeaders one after the other by SIGKILL, and gets them back. Nothing is torn down but what was
// deleted.
func TestAClusterLosesItsLeaders(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		if !slices.Contains(clustered, v.program) {
			continue
		}
		t.Run(v.program, func(t *testing.T) {
			t.Parallel()
			w, cluster := newCluster(t, v)
			r := w.lead()
			w.make("a", "b", "stays")
			for _, name := range []string{"a", "b"} {
				w.whole()
				killed := w.leader("KV_sites")
				cluster[killed].kill()
				next := &site{ObjectMeta: metav1.ObjectMeta{Name: name + "2"}, Spec: spec{Title: "first"}}
				natstest.Eventually(t, next.Name+" is created", func() bool {
					err := w.sites.Create(t.Context(), next)
					return err == nil || apierrors.IsAlreadyExists(err)
				})
				stored, err := w.sites.Get(t.Context(), next.Name)
				must(t, err)
				w.reconciled(stored)
				natstest.Eventually(t, name+" is deleted", func() bool {
					err := w.sites.Delete(t.Context(), name, entity.Purge())
					return err == nil || apierrors.IsNotFound(err)
				})
				w.tornDown(name)
				cluster[killed].start()
			}
			w.left("a2", "b2", "stays")
			if s := r.Stats(); s.BrakeEngaged > 0 || s.TornDown != 2 {
				t.Errorf("the brake engaged %d times, %d were torn down", s.BrakeEngaged, s.TornDown)
			}
			natstest.Eventually(t, "nothing is degraded", func() bool { return len(r.Stats().Degraded) == 0 })
		})
	}
}
