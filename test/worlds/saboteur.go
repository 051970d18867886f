package worlds

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// disturb is what happens to a replica.
func (w *world) disturb(ctx context.Context, p *Process, e Event, r *rand.Rand) {
	x := p.wire
	some := 1 + r.IntN(3)
	directions := pick(r, []natstest.Direction{natstest.ToServer}, []natstest.Direction{natstest.FromServer},
		[]natstest.Direction{natstest.ToServer, natstest.FromServer})
	switch e.Do {
	case slow, cut, refused, halfOpen, paused:
		defer w.hinders(p.Name)()
	}
	switch e.Do {
	case slow:
		x.proxy.Delay(between(r, time.Millisecond, 1500*time.Millisecond), directions...)
		sleep(ctx, e.For)
		x.proxy.Delay(0)
	case cut:
		x.proxy.Cut()
	case refused:
		x.proxy.Refuse()
		sleep(ctx, e.For)
		p.resume()
	case halfOpen:
		x.proxy.Blackhole(directions...)
		sleep(ctx, e.For)
		p.resume()
	case paused:
		x.proxy.Hold(directions...)
		sleep(ctx, e.For)
		p.resume()
	case lostAcks:
		x.meet(some, isAck, natstest.Fate{Lost: true})
	case lostWrites:
		x.meet(some, isWrite, natstest.Fate{Lost: true})
	case lostAsks:
		x.meet(some, isAsk, natstest.Fate{Lost: true})
	case lostNews:
		x.meet(some, isNews, natstest.Fate{Lost: true})
	case doubled:
		x.meet(some, isAny, natstest.Fate{Twice: true})
	case lateAcks:
		x.meet(some, isAck, natstest.Fate{Late: e.For})
	case join:
		w.oneMore(ctx, e.For)
	case lateViews:
		x.seesLate(ctx, e.For, r)
	case oldViews:
		defer w.hinders(p.Name)()
		x.seesNothing(e.For)
		sleep(ctx, e.For)
	case crash, update, deploy, kill, leave:
		w.replace(ctx, p, e, r)
	}
}

// replace ends a process, and starts another one after a while.
func (w *world) replace(ctx context.Context, p *Process, e Event, r *rand.Rand) {
	if e.Step == "" && len(w.living()) < 2 || !p.gone.CompareAndSwap(false, true) {
		return
	}
	p.end(e.Do == crash || e.Do == kill)
	if e.Do == deploy {
		w.deploys(r)
	}
	if e.Do == kill || e.Do == leave {
		sleep(ctx, e.For*3/4)
	}
	sleep(ctx, e.For/4)
	w.launch(context.Background())
}

// resume ends what is wrong with a wire, unless its process has crashed.
func (p *Process) resume() {
	if !p.gone.Load() {
		p.wire.proxy.Resume()
	}
}

// breakStreams is what happens to the server and its streams. One thing at a time happens to each.
func (w *world) breakStreams(ctx context.Context, e Event, at place, r *rand.Rand) {
	any := pick(r, w.subject.buckets()...)
	if at.bucket != "" {
		any = at.bucket
	}
	bucket := w.streamFor(e, any, r)
	release, ok := w.tryTake(bucket)
	if !ok {
		return
	}
	defer release()
	// With caches of slots no slot is taken while what belongs to it cannot be read.
	if bucket == "server" || bucket == w.subject.status() || w.plan.SlotCaches() {
		defer w.hinders("")()
	}
	switch e.Do {
	case serverRestarts:
		w.server.Stop()
		w.holds(tenure{}) // a watch that goes on later does not see all
		w.watchesAnew()
		sleep(ctx, e.For/2)
		w.patiently("starting the server", func(context.Context) error { return w.server.Start() })
	case rights:
		denied := any
		w.note("saboteur", "replicas may not write to %s", denied)
		w.reload(func(o *server.Options) {
			users(o)
			o.Users[0].Permissions = &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$KV." + denied + ".>"}},
			}
		})
		sleep(ctx, e.For)
		w.reload(users)
	case full:
		w.reconfigure(bucket, func(c *jetstream.StreamConfig, s jetstream.StreamState) { c.MaxBytes = int64(s.Bytes) + 10 })
		sleep(ctx, e.For)
		w.reconfigure(bucket, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxBytes = -1 })
	case refusing:
		w.reconfigure(bucket, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgSize = 1 })
		sleep(ctx, e.For)
		w.reconfigure(bucket, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgSize = -1 })
	case backup, backupDocs, backupRecords:
		w.restore(ctx, bucket, e.For, between(r, 0, 10*time.Second))
	case sealed:
		w.seal(ctx, bucket, e.For)
	case noRecords, noDocs, noOwned:
		w.lose(ctx, bucket, e.For/4)
	case empty:
		w.loseAll(ctx, e.For/2)
	case purgeOwned, purgeDocs:
		w.aboutDocuments(bucket, func() {
			w.once("purging "+bucket, func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) }, bucket)
		})
	}
}

// streamFor is the bucket, or the "server", that an event is about.
func (w *world) streamFor(e Event, any string, r *rand.Rand) string {
	switch e.Do {
	case serverRestarts, rights, empty:
		return "server"
	case backup, purgeOwned, noOwned:
		return pick(r, w.subject.Owned...)
	case backupDocs, purgeDocs, noDocs:
		return w.subject.Primaries
	case backupRecords, noRecords:
		return w.subject.status()
	}
	return any
}

func (w *world) reload(change func(*server.Options)) {
	w.patiently("changing rights", func(context.Context) error { return w.server.Reload(change) })
}

// aboutDocuments calls f, which may change what documents there are, if it is about their bucket.
func (w *world) aboutDocuments(bucket string, f func()) {
	if bucket != w.subject.Primaries {
		f()
		return
	}
	defer w.take("user")()
	for _, key := range w.keys() {
		w.knows(key, unknown, nil)
	}
	f()
	w.learn(w.keys()...)
}

func (w *world) once(what string, f func(context.Context, jetstream.Stream) error, bucket string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := w.js.Stream(ctx, "KV_"+bucket)
	if err == nil {
		err = f(ctx, s)
	}
	w.note("saboteur", "%s: %v", what, err)
}

func (w *world) reconfigure(bucket string, change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	w.patiently("configuring "+bucket, func(ctx context.Context) error {
		s, err := w.js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		change(&info.Config, info.State)
		_, err = w.js.UpdateStream(ctx, info.Config)
		w.note("saboteur", "%s: at most %d bytes, %d in a message, sealed %v: %v",
			bucket, info.Config.MaxBytes, info.Config.MaxMsgSize, info.Config.Sealed, err)
		return err
	})
}

// keyFor is the key that an event is about; "" if there is none.
func (w *world) keyFor(e Event, at place, r *rand.Rand) (bucket, key string) {
	bucket, key = w.subject.status(), e.Key
	switch e.Do {
	case vanishDoc:
		bucket = w.subject.Primaries
	case noLease:
		// Who wants the lease waits for as long as its holder may not have noticed, and a member that begins waits for it.
		key = leaseKey
		w.hindersFor(longestLease)
	case reserved:
		key = pick(r, "_nagi.controller", "_nagi.instance", "_nagi.stream", "_nagi.brake")
		if strings.HasPrefix(at.key, "_nagi.") && at.key != leaseKey {
			key = at.key
		}
	case deleteOwned, editOwned, vanishOwned:
		bucket = pick(r, w.subject.Owned...)
		if slices.Contains(w.subject.Owned, at.bucket) {
			bucket, key = at.bucket, at.key
		} else {
			key = w.anyKey(bucket, r)
		}
	}
	return bucket, key
}

// touch is what a saboteur does to a key.
func (w *world) touch(e Event, at place, r *rand.Rand) {
	bucket, key := w.keyFor(e, at, r)
	if key == "" {
		return
	}
	purge := func(ctx context.Context, s jetstream.Stream) error {
		return s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+bucket+"."+key))
	}
	do := purge
	switch e.Do {
	case deleteOwned, noRecord, noLease:
		do = func(ctx context.Context, _ jetstream.Stream) error {
			kv, err := w.js.KeyValue(ctx, bucket)
			if err == nil {
				err = kv.Delete(ctx, key)
			}
			return err
		}
	case editOwned:
		do = func(ctx context.Context, _ jetstream.Stream) error {
			kv, err := w.js.KeyValue(ctx, bucket)
			if err != nil {
				return err
			}
			was, err := kv.Get(ctx, key)
			if err != nil {
				return err
			}
			_, err = kv.Put(ctx, key, bytes.Replace(was.Value(), []byte(`"title":"`), []byte(`"title":"edited `), 1))
			return err
		}
	}
	if e.Do == deleteOwned || e.Do == vanishOwned {
		w.takesAway(key)
	}
	w.touches(key)
	if e.Do != vanishDoc {
		w.once(string(e.Do)+" "+key, do, bucket)
		return
	}
	defer w.take("user")()
	w.knows(key, unknown, nil)
	w.once(string(e.Do)+" "+key, do, bucket)
	w.learn(key)
}

// anyKey is a key of a bucket, or "" if it has none or does not answer.
func (w *world) anyKey(bucket string, r *rand.Rand) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := w.read(ctx, bucket)
	if err != nil || len(all) == 0 {
		return ""
	}
	return pick(r, slices.Sorted(maps.Keys(all))...)
}
