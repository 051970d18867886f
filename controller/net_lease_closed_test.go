package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// twoReplicas runs a leader with work to do all the time, and a standby, over a connection of their own.
func (w *world) twoReplicas(change ...func(*entity.Config)) (c [2]*Controller[*site], lines [2]*logLines) {
	w.t.Helper()
	sites := w.client("Site", "sites", change...)
	for i := range c {
		var err error
		c[i], err = New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			_, err := sites.Get(ctx, req.Key)
			return Result{RequeueAfter: time.Second}, err
		}))
		must(w.t, err)
		lines[i] = &logLines{}
		w.run(logging{c[i], lines[i].logger()})
		natstest.Eventually(w.t, "the first leads", func() bool { return c[0].Stats().Leading })
	}
	w.make(sites, 20)
	w.settled(c[0], sites, 20)
	return c, lines
}

// sources are those that the lines of a message name, with how often each.
func (l *logLines) sources(message string) map[string]int {
	n := map[string]int{}
	for _, line := range l.with(message) {
		n[line["source"].(string)]++
	}
	return n
}

// TestAConnectionThatIsClosedForGoodIsToldOnce of each thing that needs it, with what to do. The renewal of the lease and
// the look after it took turns, and so did the records of the keys.
func TestAConnectionThatIsClosedForGoodIsToldOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nc, js := natstest.Connect(t, w.server.URL())
		own := &world{t: t, server: w.server, js: js}
		c, lines := own.twoReplicas()
		nc.Close()
		time.Sleep(10 * time.Minute)
		for i := range c {
			told := lines[i].sources("Source degraded, the rest goes on")
			for source, n := range told {
				if n != 1 {
					t.Errorf("replica %d: that %s is degraded is told %d times", i, source, n)
				}
			}
			for _, source := range []string{"lease (bucket sites-status)", "primary Site (bucket sites)"} {
				why := c[i].Stats().Degraded[source]
				if told[source] == 0 || why == nil || !strings.Contains(why.Error(), "restart the process") {
					t.Errorf("replica %d: %s is told %d times, and degraded by %v", i, source, told[source], why)
				}
			}
			if again := lines[i].sources("Source works again"); len(again) > 0 {
				t.Errorf("replica %d: %v works again", i, again)
			}
		}
	})
}

// TestALostConnectionIsToldOnceAndWhenItIsBack, by one of those who need it.
func TestALostConnectionIsToldOnceAndWhenItIsBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, lines := w.twoReplicas(onDisk)
		w.server.Stop()
		time.Sleep(20 * time.Second)
		must(t, w.server.Start())
		time.Sleep(20 * time.Second)
		down, back := 0, 0
		for i := range c {
			told := lines[i].sources("Source degraded, the rest goes on")
			again := lines[i].sources("Source works again")
			for source, n := range told {
				if n != 1 || again[source] != 1 {
					t.Errorf("replica %d: that %s is degraded is told %d times, that it works again %d times",
						i, source, n, again[source])
				}
			}
			for _, source := range []string{"lease (bucket sites-status)", "primary Site (bucket sites)"} {
				if told[source] != 0 {
					t.Errorf("replica %d: %s is told apart from the connection", i, source)
				}
			}
			down += len(lines[i].with("The connection to NATS is down"))
			back += len(lines[i].with("The connection to NATS works again"))
			if len(c[i].Stats().Degraded) > 0 {
				t.Errorf("replica %d: degraded %v", i, c[i].Stats().Degraded)
			}
		}
		if down != 1 || back != 1 {
			t.Errorf("that it is down is told %d times, that it works again %d times", down, back)
		}
	})
}
