package faults

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// roundTime is how long everything is broken in a round. quietPatience is how long the worlds may then take to
	// agree: client-go's reflectors pause up to half a minute before they list again.
	roundTime     = 8 * time.Second
	quietPatience = 3 * time.Minute
)

// TestFourWorldsAgreeWithThePrimariesAfterEveryFault has 300 shops, each with a ConfigMap, a Secret, a Route in NATS
// and a machine behind an API. In each round a writer creates, updates and deletes shops, a vandal deletes and edits
// secondaries, and the API server, NATS, the controller and the machines' API are killed and come back, all at once
// and at random. When it is quiet, all four worlds agree exactly with the shops.
//
// NAGI_SEED=n repeats the choices of a run, NAGI_ROUNDS=n does more rounds than five.
func TestFourWorldsAgreeWithThePrimariesAfterEveryFault(t *testing.T) {
	s := newScenario(t)
	seed, rounds := number(t, "NAGI_SEED", uint64(time.Now().UnixNano())), number(t, "NAGI_ROUNDS", 5)
	s.fill(t)
	s.controller.start(t)
	took := s.agree(t)
	t.Logf("%d shops: the worlds agree after %v", primaries, took)
	for round := range rounds {
		t.Logf("round %d, NAGI_SEED=%d", round+1, seed+round)
		s.round(t, seed+round)
		took := s.agree(t)
		t.Logf("round %d: the worlds agree %v after the last fault", round+1, took)
	}
	s.quiet(t)
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	must(t, err)
	return n
}

type scenario struct {
	world
	nats       *natsServer
	api        *kubetest.Server
	controller *supervisor
}

func newScenario(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{nats: startNATS(t), api: kubetest.Start(t)}
	nc, err := connect(s.nats.url)
	must(t, err)
	t.Cleanup(nc.Close)
	s.js, err = jetstream.New(nc)
	must(t, err)
	s.shops, err = newShops(t.Context(), s.js)
	must(t, err)
	t.Cleanup(s.shops.Close)
	s.routes, err = newRoutes(t.Context(), s.js)
	must(t, err)
	t.Cleanup(s.routes.Close)
	config := s.api.Config()
	s.kube, err = kubernetes.NewForConfig(config)
	must(t, err)
	s.cloud = startCloud(t)
	s.controller = &supervisor{process: newProcess(t, "controller",
		urlEnv+"="+s.nats.url,
		cloudEnv+"="+s.cloud.server.URL,
		kubeHostEnv+"="+config.Host,
		kubeTokenEnv+"="+config.BearerToken,
		kubeCAEnv+"="+base64.StdEncoding.EncodeToString(config.CAData),
	)}
	t.Cleanup(s.controller.stop)
	return s
}

func (s *scenario) fill(t *testing.T) {
	t.Helper()
	for i := range primaries {
		must(t, s.shops.Create(t.Context(), &shop{
			ObjectMeta: metav1.ObjectMeta{Name: shopName(i)}, Spec: shopSpec{"first"},
		}))
	}
}

// round breaks everything for a while. Each goroutine that writes or breaks has its own dice, so a seed repeats their
// choices, but not the moments at which they meet.
func (s *scenario) round(t *testing.T, seed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundTime)
	defer cancel()
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	var all sync.WaitGroup
	var writes, deeds int
	all.Go(func() { writes = s.write(ctx, dice(1)) })
	all.Go(func() { deeds = s.vandalise(ctx, dice(2)) })
	faults := []fault{
		{"API server", s.api.Kill, func() { s.mend(t, "API server", s.api.Restart) }, 0},
		{"NATS", s.nats.kill, func() { s.mend(t, "NATS", s.nats.restart) }, 0},
		{"controller", s.controller.stop, func() { s.controller.start(t) }, 0},
		{"machines' API", func() { s.cloud.setDown(true) }, func() { s.cloud.setDown(false) }, 0},
	}
	for i := range faults {
		all.Go(func() { faults[i].strike(ctx, dice(uint64(3+i))) })
	}
	all.Wait()
	for _, f := range faults {
		t.Logf("  %s: down %d times", f.name, f.times)
	}
	t.Logf("  %d writes, %d deeds of the vandal; the controller ended by itself %d times so far",
		writes, deeds, s.controller.ended())
}

func (s *scenario) mend(t *testing.T, name string, restart func() error) {
	if err := restart(); err != nil {
		t.Errorf("start %s again: %v", name, err)
	}
}

// fault takes something down and up again.
type fault struct {
	name  string
	down  func()
	up    func()
	times int
}

// strike repeats the fault until ctx ends, and leaves the thing up.
func (f *fault) strike(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(500+rng.IntN(3500))*time.Millisecond) {
		f.down()
		f.times++
		pause(ctx, time.Duration(rng.IntN(1500))*time.Millisecond)
		f.up()
	}
}

// pause waits as a part of the scenario. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// agree waits until the worlds agree.
func (s *scenario) agree(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), quietPatience)
	defer cancel()
	var seen []string // in the last complete look
	var failed error  // why the last look was not complete
	for {
		looking, done := context.WithTimeout(ctx, 20*time.Second)
		differences, err := s.differences(looking)
		done()
		switch {
		case err == nil && len(differences) == 0:
			return time.Since(began).Round(time.Millisecond)
		case err == nil:
			seen, failed = differences, nil
		case ctx.Err() == nil:
			failed = err
		}
		if !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	t.Fatalf("the worlds do not agree %v after the last fault: %d differences, first %q; last look: %v",
		quietPatience, len(seen), seen[:min(len(seen), 10)], failed)
	return 0
}

// quiet checks that the controller leaves a world that agrees alone, and writes nothing any more.
func (s *scenario) quiet(t *testing.T) {
	t.Helper()
	before := s.marks(t)
	pause(t.Context(), 3*time.Second) // the machines are listed six times meanwhile
	if after := s.marks(t); after != before {
		t.Errorf("something was written in a world that agrees: %+v, then %+v", before, after)
	}
}

// marks move with every write.
type marks struct {
	routes              uint64
	configMaps, secrets string
	machines            int
}

func (s *scenario) marks(t *testing.T) marks {
	t.Helper()
	var m marks
	stream, err := s.js.Stream(t.Context(), "KV_routes")
	must(t, err)
	m.routes = stream.CachedInfo().State.LastSeq
	configMaps, err := s.kube.CoreV1().ConfigMaps(namespace).List(t.Context(), owned)
	must(t, err)
	for _, c := range configMaps.Items {
		m.configMaps = max(m.configMaps, c.ResourceVersion)
	}
	secrets, err := s.kube.CoreV1().Secrets(namespace).List(t.Context(), owned)
	must(t, err)
	for _, c := range secrets.Items {
		m.secrets = max(m.secrets, c.ResourceVersion)
	}
	_, _, m.machines = s.cloud.texts()
	return m
}
