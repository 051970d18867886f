package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
)

// span is a stretch of time, in nanoseconds since 1970.
type span struct{ From, To int64 }

func (s span) seconds() float64 { return float64(s.To-s.From) / 1e9 }

// scaleSizes are the numbers of primaries.
var scaleSizes = []int{10_000, 100_000, 1_000_000}

// The situations in which a change is made.
const (
	whileIdle    = "nothing else goes on"
	whileSyncing = "the caches sync after a start (it waits for them)"
	whileFirst   = "all primaries are reconciled after a start"
	whilePass    = "all primaries are reconciled at once"
	whileResync  = "a resync goes through all"
	whileSweep   = "a sweep runs"
)

var situations = []string{whileIdle, whileFirst, whilePass, whileResync, whileSweep, whileSyncing}

// scaleTimes are the durations that may not grow faster than the number of keys.
const (
	scaleList  = "an informer alone: first sync"
	scaleRaw   = "the raw loop over the same bucket"
	scaleCold  = "first start: until all were reconciled, two records written for each"
	scaleSync  = "restart: until synced and at work"
	scaleAll   = "restart: from then until all were reconciled"
	scalePass  = "one pass over all primaries"
	scaleSweep = "a sweep"
	scaleWalk  = "no controller: a Go map of as many primaries and secondaries, and each primary copied once"
)

// runScale measures one controller with more and more primaries.
func runScale(ctx context.Context, b *bench) (c *chapter, err error) {
	resync := b.duration(10 * time.Second)
	c = &chapter{title: "6. Scale", setup: fmt.Sprintf(
		"One controller of Nagi with 8 workers, whose primaries have one secondary each, "+
			"in NATS; the reconciler reads its primary and\n"+
			"writes nothing. Every 20 ms one primary is changed: from before the write until a reconcile has read it. "+
			"The resync\n"+
			"interval is %v here (the default is 10 minutes), "+
			"so that a resync of all is spread over that time, and a sweep follows it.\n"+
			"Heap is of documents, records and secondaries, all decoded, per primary.", resync)}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	table := newScaleTable()
	var sizes []int
	for _, n := range scaleSizes {
		n = b.size(n)
		sizes = append(sizes, n)
		s := &scaleRun{
			b: b, nats: nats, place: fmt.Sprint("scale-", n), n: n, resync: resync,
			table: table, name: number(float64(n)) + " primaries",
		}
		if err := s.run(ctx); err != nil {
			return c, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	c.figures = table.figures()
	scaleReaches(c, table, sizes)
	return c, nil
}

// scaleTable has the figures of the section, by what is measured.
type scaleTable struct {
	chapter chapter
	times   map[string]*figure
	heap    *figure
	slim    *figure
	memory  *figure
	cpu     *figure
	change  map[string]*figure
}

func newScaleTable() *scaleTable {
	t := &scaleTable{times: map[string]*figure{}, change: map[string]*figure{}}
	for _, what := range []string{
		scaleList, scaleRaw, scaleCold, scaleSync, scaleAll, scalePass, scaleSweep, scaleWalk,
	} {
		t.times[what] = t.chapter.figure(what, "s").forInformation()
	}
	t.heap = t.chapter.figure("heap per primary", "B").forInformation()
	t.slim = t.chapter.figure("the same, with OnlyMetadata of the secondaries", "B").forInformation()
	t.memory = t.chapter.figure("most resident memory", "B").forInformation()
	t.cpu = t.chapter.figure("CPU seconds of the controller during one resync interval", "s").forInformation()
	for _, s := range situations {
		t.change[s] = t.chapter.figure("one change, while "+s, "s").forInformation()
	}
	return t
}

func (t *scaleTable) figures() []*figure { return t.chapter.figures }

func scaleReaches(c *chapter, t *scaleTable, sizes []int) {
	names := make([]string, len(sizes))
	for i, n := range sizes {
		names[i] = number(float64(n)) + " primaries"
	}
	last, before := len(sizes)-1, len(sizes)-2
	keys := float64(sizes[last]) / float64(sizes[before])
	const noise = 1.1
	for _, what := range []string{scaleList, scaleCold, scaleSync, scaleAll, scalePass, scaleSweep} {
		growth := t.times[what].median(names[last]) / t.times[what].median(names[before])
		c.reach(growth <= keys*noise,
			fmt.Sprintf("%s: grows no faster than the keys (from %s to %s; a tenth of noise allowed)",
				what, names[before], names[last]),
			"%s for %s the keys", times(growth), times(keys))
	}
	heap := t.heap.median(names[last]) / t.heap.median(names[before])
	c.reach(heap <= noise, "heap per primary does not grow", "%s", times(heap))
	for _, s := range situations[:5] {
		got := t.change[s].median(names[last])
		c.reach(got <= 0.010,
			fmt.Sprintf("one change within 10 ms at the median at %s, while %s", names[last], s),
			"%s", format(got, "s"))
	}
	raw := t.times[scaleList].median(names[last]) / t.times[scaleRaw].median(names[last])
	c.note("An informer alone takes %s the raw loop's time at %s. "+
		"The raw loop, which has no cache, takes %s the time for %s the keys.",
		times(raw), names[last],
		times(t.times[scaleRaw].median(names[last])/t.times[scaleRaw].median(names[before])), times(keys))
	c.note("Without a controller, the copies alone take %s the time for %s the keys: "+
		"what does not fit into the processor's caches takes longer.",
		times(t.times[scaleWalk].median(names[last])/t.times[scaleWalk].median(names[before])), times(keys))
	c.note("The spread of what is said of one change is that of all changes made in that situation; " +
		"turns are their number.")
}

// scaleRun does all measurements with one number of primaries.
type scaleRun struct {
	b      *bench
	nats   *natsServer
	place  string
	name   string
	n      int
	resync time.Duration
	table  *scaleTable
}

func (s *scaleRun) run(ctx context.Context) error {
	if err := s.cold(ctx); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	if err := s.alone(ctx); err != nil {
		return fmt.Errorf("informer alone: %w", err)
	}
	if err := s.warm(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := s.slim(ctx); err != nil {
		return fmt.Errorf("restart with OnlyMetadata: %w", err)
	}
	if err := s.resyncing(ctx); err != nil {
		return fmt.Errorf("resync: %w", err)
	}
	return s.remove(ctx)
}

// cold starts the controller for the first time, with all primaries in place, and then adds their secondaries.
func (s *scaleRun) cold(ctx context.Context) (err error) {
	empty, err := s.start(ctx, time.Hour*24)
	if err != nil {
		return err
	}
	if err := errors.Join(empty.call(ctx, "ready", nil, nil), empty.stop()); err != nil { // it has made the buckets
		return err
	}
	u := &natsUser{js: s.nats.js, bucket: s.place}
	if err := u.fill(ctx, "site", s.n); err != nil {
		return err
	}
	p, err := s.start(ctx, time.Hour*24)
	if err != nil {
		return err
	}
	var when moments
	err = errors.Join(
		p.call(ctx, "ready", nil, nil),
		p.call(ctx, "first", nil, nil),
		p.call(ctx, "moments", nil, &when))
	if err := errors.Join(err, p.stop()); err != nil {
		return err
	}
	seconds := span{when.Started, when.All}.seconds()
	s.table.times[scaleCold].add(s.name, seconds)
	s.b.say("scale: %s: first start %s", s.name, format(seconds, "s"))
	return s.addSecondaries(ctx)
}

// addSecondaries puts the secondaries that the controller would create, in its name.
func (s *scaleRun) addSecondaries(ctx context.Context) error {
	status, err := s.nats.js.KeyValue(ctx, s.place+"-status")
	if err != nil {
		return err
	}
	entry, err := status.Get(ctx, entity.ReservedPrefix+".instance")
	if err != nil {
		return fmt.Errorf("read the installation's id: %w", err)
	}
	instance := strings.Trim(string(entry.Value()), `"`)
	return publishAll(ctx, s.nats.js, s.n, func(i int) (string, any) {
		primary := fmt.Sprint("site-", i)
		configMap := newConfigMap(secondaryName(primary, 0), newWebsite(primary, i, 0))
		entity.SetOwner(configMap, "Website", primary, instance)
		return "$KV." + s.place + "-secondaries." + configMap.Name, configMap
	})
}

// alone measures an informer over the primaries, beside the raw loop and walkMemory.
func (s *scaleRun) alone(ctx context.Context) error {
	for range s.b.turns(2) {
		for what, source := range map[string]string{scaleList: "nagi", scaleRaw: "raw", scaleWalk: "memory"} {
			got, err := fillOne(ctx, cacheConfig{Source: source, NATS: s.nats.url, Place: s.place, Objects: s.n}, nil)
			if err != nil {
				return err
			}
			s.table.times[what].add(s.name, got.Seconds)
		}
	}
	return nil
}

func (s *scaleRun) start(ctx context.Context, resync time.Duration) (*process, error) {
	return startProcess(ctx, "scale", scaleConfig{NATS: s.nats.url, Place: s.place, Primaries: s.n, Resync: resync})
}

// warm starts the controller with everything in place, lets it idle for a while, and then makes passes.
func (s *scaleRun) warm(ctx context.Context) (err error) {
	stop := s.change(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	p, err := s.start(ctx, time.Hour*24)
	if err != nil {
		return err
	}
	defer stopAll(&err, p)
	if err := errors.Join(p.call(ctx, "ready", nil, nil), p.call(ctx, "first", nil, nil)); err != nil {
		return err
	}
	var when moments
	if err := p.call(ctx, "moments", nil, &when); err != nil {
		return err
	}
	syncing, first := span{when.Started, when.Ready}, span{when.Ready, when.All}
	s.table.times[scaleSync].add(s.name, syncing.seconds())
	s.table.times[scaleAll].add(s.name, first.seconds())
	s.b.say("scale: %s: restart: synced %s, then all %s",
		s.name, format(syncing.seconds(), "s"), format(first.seconds(), "s"))

	if err := p.call(ctx, "calm", nil, nil); err != nil {
		return err
	}
	idle, err := s.idle(ctx, s.b.duration(3*time.Second))
	if err != nil {
		return err
	}
	var heap float64
	if err := p.call(ctx, "heap", nil, &heap); err != nil {
		return err
	}
	s.table.heap.add(s.name, heap/float64(s.n))
	passes := make([]span, 3)
	for i := range passes {
		if err := p.call(ctx, "pass", nil, &passes[i]); err != nil {
			return err
		}
		s.table.times[scalePass].add(s.name, passes[i].seconds())
	}
	s.b.say("scale: %s: a pass %s, heap per primary %s",
		s.name, format(passes[0].seconds(), "s"), format(heap/float64(s.n), "B"))
	if _, err := s.idle(ctx, time.Second); err != nil { // for the last changes to arrive
		return err
	}
	used, err := p.usage(ctx)
	if err != nil {
		return err
	}
	s.table.memory.add(s.name, used.Peak)
	var samples []sample
	if err := p.call(ctx, "samples", nil, &samples); err != nil {
		return err
	}
	s.sort(samples, whileSyncing, syncing)
	s.sort(samples, whileFirst, first)
	s.sort(samples, whileIdle, idle)
	s.sort(samples, whilePass, passes...)
	return nil
}

// slim starts the controller with metadata only of the secondaries, and measures its heap.
func (s *scaleRun) slim(ctx context.Context) (err error) {
	p, err := startProcess(ctx, "scale", scaleConfig{
		NATS: s.nats.url, Place: s.place, Primaries: s.n, Resync: time.Hour * 24, OnlyMetadata: true,
	})
	if err != nil {
		return err
	}
	defer stopAll(&err, p)
	if err := errors.Join(p.call(ctx, "ready", nil, nil), p.call(ctx, "first", nil, nil),
		p.call(ctx, "calm", nil, nil)); err != nil {
		return err
	}
	if _, err := s.idle(ctx, max(2*time.Second, s.b.duration(3*time.Second))); err != nil { // handlers hear of the rest
		return err
	}
	var heap float64
	if err := p.call(ctx, "heap", nil, &heap); err != nil {
		return err
	}
	s.table.slim.add(s.name, heap/float64(s.n))
	s.b.say("scale: %s: heap per primary with OnlyMetadata %s", s.name, format(heap/float64(s.n), "B"))
	return nil
}

// resyncing runs the controller through some resyncs, with a short interval. The time between the beginnings of two
// sweeps, less the interval, is a sweep's duration.
func (s *scaleRun) resyncing(ctx context.Context) (err error) {
	p, err := s.start(ctx, s.resync)
	if err != nil {
		return err
	}
	defer stopAll(&err, p)
	if err := errors.Join(p.call(ctx, "ready", nil, nil), p.call(ctx, "first", nil, nil)); err != nil {
		return err
	}
	stop := s.change(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	const sweeps = 4
	var when moments
	var before usage
	for len(when.Sweeps) < sweeps {
		known := len(when.Sweeps)
		if _, err := s.idle(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if err := p.call(ctx, "moments", nil, &when); err != nil {
			return err
		}
		if len(when.Sweeps) == known {
			continue
		}
		now, err := p.usage(ctx)
		if err != nil {
			return err
		}
		if len(when.Sweeps) > 2 { // a whole interval without the start
			s.table.cpu.add(s.name, now.CPU-before.CPU)
		}
		before = now
	}
	var samples []sample
	if err := p.call(ctx, "samples", nil, &samples); err != nil {
		return err
	}
	whole := when.Sweeps[1:] // the first interval has the start in it
	for i, next := range whole[1:] {
		took := max(0, next-whole[i]-int64(s.resync))
		sweep := span{whole[i], whole[i] + took}
		s.table.times[scaleSweep].add(s.name, sweep.seconds())
		s.sort(samples, whileSweep, sweep)
		s.sort(samples, whileResync, span{sweep.To, next})
	}
	s.b.say("scale: %s: a sweep %s, a change while resyncing %s", s.name,
		format(s.table.times[scaleSweep].median(s.name), "s"), format(s.table.change[whileResync].median(s.name), "s"))
	return nil
}

// sort adds the samples of changes that were made in one of the spans.
func (s *scaleRun) sort(samples []sample, situation string, spans ...span) {
	for _, one := range samples {
		for _, in := range spans {
			if one.At >= in.From && one.At < in.To {
				s.table.change[situation].add(s.name, one.Took)
			}
		}
	}
}

// idle lets time go by.
func (s *scaleRun) idle(ctx context.Context, d time.Duration) (span, error) {
	from := time.Now().UnixNano()
	select {
	case <-time.After(d):
		return span{from, time.Now().UnixNano()}, nil
	case <-ctx.Done():
		return span{}, ctx.Err()
	}
}

// change changes one primary after the other, every 20 ms, until it is stopped.
func (s *scaleRun) change(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	u := &natsUser{js: s.nats.js, bucket: s.place}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			key := i * 7919 % s.n
			if err := u.write(context.WithoutCancel(ctx), fmt.Sprint("site-", key), key); err != nil {
				ended <- fmt.Errorf("change a primary: %w", err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// remove deletes the buckets, to make room for the next run.
func (s *scaleRun) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience) // without a deadline it is five seconds
	defer cancel()
	for _, bucket := range []string{s.place, s.place + "-status", s.place + "-secondaries"} {
		if err := s.nats.js.DeleteKeyValue(ctx, bucket); err != nil {
			return fmt.Errorf("delete bucket %s: %w", bucket, err)
		}
	}
	return nil
}
