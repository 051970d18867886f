package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func newBucket(t *testing.T, js jetstream.JetStream, storage jetstream.StorageType) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(),
		jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Minute, Storage: storage})
	must(t, err)
	return kv
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAKeyExpiresAtItsTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		kv := newBucket(t, js, jetstream.MemoryStorage)
		w, err := kv.Watch(t.Context(), ">", jetstream.UpdatesOnly())
		must(t, err)
		defer func() { _ = w.Stop() }()
		began := time.Now()
		_, err = kv.Create(t.Context(), "k", nil, jetstream.KeyTTL(10*time.Second))
		must(t, err)
		<-w.Updates()
		<-w.Updates()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it expired after %v, not after 10s", took)
		}
	})
}

// TestWhatIsTooOldGoesAtItsTime from memory and from disk, whose store takes the time from elsewhere.
func TestWhatIsTooOldGoesAtItsTime(t *testing.T) {
	for _, storage := range []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage} {
		t.Run(storage.String(), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				_, js := natstest.Connect(t, natstest.Start(t).URL())
				kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", TTL: time.Minute,
					Storage: storage})
				must(t, err)
				_, err = kv.PutString(t.Context(), "older", "goes before")
				must(t, err)
				time.Sleep(30 * time.Second)
				began := time.Now()
				_, err = kv.PutString(t.Context(), "k", "old")
				must(t, err)
				time.Sleep(time.Minute - time.Millisecond)
				if _, err := kv.Get(t.Context(), "k"); err != nil {
					t.Errorf("gone after %v: %v", time.Since(began), err)
				}
				natstest.Eventually(t, "it goes", func() bool {
					_, err := kv.Get(t.Context(), "k")
					return errors.Is(err, jetstream.ErrKeyNotFound)
				})
				if took := time.Since(began); took > time.Minute+time.Second {
					t.Errorf("gone after %v, want a minute", took)
				}
			})
		})
	}
}

func TestWhatIsStoredOutlivesARestartInVirtualTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		nc, js := natstest.Connect(t, srv.URL())
		kv := newBucket(t, js, jetstream.FileStorage)
		_, err := kv.PutString(t.Context(), "k", "stored")
		must(t, err)
		srv.Stop()
		synctest.Wait()
		if nc.IsConnected() {
			t.Error("the client does not know that its server stopped")
		}
		time.Sleep(10 * time.Minute)
		must(t, srv.Start())
		natstest.Eventually(t, "the client is back", nc.IsConnected)
		entry, err := kv.Get(t.Context(), "k")
		must(t, err)
		if string(entry.Value()) != "stored" {
			t.Errorf("it reads %q", entry.Value())
		}
	})
}

func TestServersInVirtualTimeAreApart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		one, other := natstest.Start(t), natstest.Start(t)
		_, js := natstest.Connect(t, one.URL())
		newBucket(t, js, jetstream.MemoryStorage)
		_, js = natstest.Connect(t, other.URL())
		if _, err := js.KeyValue(t.Context(), "b"); !errors.Is(err, jetstream.ErrBucketNotFound) {
			t.Errorf("the other server says %v", err)
		}
	})
}

// A file of configuration has users, accounts and permissions.
func TestAConfigurationFileIsTaken(t *testing.T) {
	const config = `
		accounts {
			SHOP: { jetstream: enabled, users: [
				{ user: reader, password: r, permissions: { publish: ["$JS.API.INFO"], subscribe: ["_INBOX.>"] } }
			] }
		}`
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfigText(config))
		nc, _ := natstest.Connect(t, srv.URL(), nats.UserInfo("reader", "r"))
		denied := make(chan error, 1)
		nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })
		must(t, nc.Publish("orders", nil))
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("a publish without the right: %v", err)
		}
	})
}

// TestAConfigurationFileHasLimits of JetStream, and what it does not say is as ever.
func TestAConfigurationFileHasLimits(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfigText("jetstream { max_file_store: 2MB }"))
		_, js := natstest.Connect(t, srv.URL())
		for size, fits := range map[int64]bool{1 << 20: true, 1 << 30: false} {
			for storage, limited := range map[jetstream.StorageType]bool{
				jetstream.FileStorage: true, jetstream.MemoryStorage: false,
			} {
				_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
					Name: fmt.Sprintf("%s-%d", storage, size), Subjects: []string{fmt.Sprintf("%s.%d", storage, size)},
					Storage: storage, MaxBytes: size,
				})
				if (err == nil) != (fits || !limited) {
					t.Errorf("a stream of %d bytes in %v: %v", size, storage, err)
				}
			}
		}
	})
}

// TestWhoTampersMayWait: meanwhile no message goes on.
func TestWhoTampersMayWait(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		proxy := natstest.StartProxy(t, natstest.Start(t).URL())
		first, _ := natstest.Connect(t, proxy.URL())
		second, _ := natstest.Connect(t, proxy.URL())
		proxy.Tamper(func(m *natstest.Message) (fate natstest.Fate) {
			time.Sleep(10 * time.Millisecond)
			return fate
		})
		ended := make(chan error, 2)
		for _, nc := range []*nats.Conn{first, second} {
			go func() { ended <- errors.Join(nc.Publish("a", nil), nc.Flush()) }()
		}
		must(t, errors.Join(<-ended, <-ended))
		proxy.Tamper(nil)
	})
}

// TestRunRunsUntilTheTestEnds or stop is called, and says what failed.
func TestRunRunsUntilTheTestEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var ran []string
		t.Cleanup(func() {
			if want := []string{"second", "first"}; !slices.Equal(ran, want) {
				t.Errorf("ended %q, want %q", ran, want)
			}
		})
		run := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // it winds down
				ran = append(ran, name)
				return nil
			}
		}
		natstest.Run(t, run("first"))
		stop := natstest.Run(t, run("second"))
		stop()
		stop()
		if len(ran) != 1 {
			t.Errorf("ended %q before stop returned", ran)
		}
	})
}

func TestAWrongConfigurationFileIsAnError(t *testing.T) {
	if _, err := natstest.New(natstest.WithConfigText("accounts {")); err == nil ||
		!strings.Contains(err.Error(), "configuration") {
		t.Errorf("an unclosed bracket: %v", err)
	}
}

// write publishes to a bucket through a proxy with a patience of a minute, and returns what came of it and when.
func write(t *testing.T, js jetstream.JetStream, value string) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	_, err := js.PublishMsg(ctx, &nats.Msg{Subject: "$KV.b.k", Data: []byte(value)}, jetstream.WithRetryAttempts(0))
	return time.Since(began), err
}

func TestWhatBecomesOfAMessage(t *testing.T) {
	for name, test := range map[string]struct {
		fate  func(*natstest.Message) natstest.Fate
		takes [3]time.Duration // of three writes
		fails [3]bool
		holds []string // at the end, of a history of all
	}{
		"the third acknowledgement is lost": {
			fate:  natstest.Nth(3, natstest.AnswersTo("$KV.b.>"), natstest.Fate{Lost: true}),
			takes: [3]time.Duration{0, 0, time.Minute}, fails: [3]bool{2: true}, holds: []string{"0", "1", "2"},
		},
		"the second write is lost": {
			fate:  natstest.Nth(2, natstest.To("$KV.b.k"), natstest.Fate{Lost: true}),
			takes: [3]time.Duration{0, time.Minute, 0}, fails: [3]bool{1: true}, holds: []string{"0", "2"},
		},
		"an acknowledgement is seven seconds late": {
			fate:  natstest.Nth(1, natstest.AnswersTo("$KV.b.k"), natstest.Fate{Late: 7 * time.Second}),
			takes: [3]time.Duration{7 * time.Second, 0, 0}, holds: []string{"0", "1", "2"},
		},
		"a write arrives twice": {
			fate:  natstest.Nth(2, natstest.To("$KV.b.k"), natstest.Fate{Twice: true}),
			holds: []string{"0", "1", "1", "2"},
		},
		"each write arrives late": {
			fate:  natstest.Each(natstest.To("$KV.b.k"), natstest.Fate{Late: time.Second}),
			takes: [3]time.Duration{time.Second, time.Second, time.Second}, holds: []string{"0", "1", "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				srv := natstest.Start(t)
				_, direct := natstest.Connect(t, srv.URL())
				kv, err := direct.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", History: 10})
				must(t, err)
				p := natstest.StartProxy(t, srv.URL())
				_, js := natstest.Connect(t, p.URL())
				p.Tamper(test.fate)
				for i := range 3 {
					took, err := write(t, js, string(rune('0'+i)))
					if took != test.takes[i] || (err != nil) != test.fails[i] {
						t.Errorf("write %d took %v: %v", i, took, err)
					}
				}
				entries, err := kv.History(t.Context(), "k")
				must(t, err)
				var holds []string
				for _, e := range entries {
					holds = append(holds, string(e.Value()))
				}
				if !slices.Equal(holds, test.holds) {
					t.Errorf("the server has %v, want %v", holds, test.holds)
				}
			})
		})
	}
}

func TestLateMessagesKeepTheirOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		p := natstest.StartProxy(t, srv.URL())
		nc, _ := natstest.Connect(t, p.URL())
		sub, err := nc.SubscribeSync("s")
		must(t, err)
		p.Tamper(natstest.Each(natstest.To("s"), natstest.Fate{Late: time.Second}))
		var want, got strings.Builder
		for n := range 200 {
			fmt.Fprint(&want, n, " ")
			must(t, nc.Publish("s", fmt.Append(nil, n)))
		}
		for range 200 {
			m, err := sub.NextMsg(2 * time.Second)
			must(t, err)
			fmt.Fprint(&got, string(m.Data), " ")
		}
		if got.String() != want.String() {
			t.Errorf("they arrived as %s", got.String())
		}
	})
}

// TestWhatAProxyDoesToAWrite that arrives in any case: how long its answer takes, whether the client notices, and that
// all is well after it.
func TestWhatAProxyDoesToAWrite(t *testing.T) {
	for name, test := range map[string]struct {
		does          func(p *natstest.Proxy)
		takes         time.Duration
		fails         bool
		before, after uint64 // how often the client has connected again when the write is over, and after a Resume
	}{
		"it holds it until it resumes": {does: func(p *natstest.Proxy) {
			p.Hold(natstest.ToServer)
			time.AfterFunc(5*time.Second, p.Resume)
		}, takes: 5 * time.Second},
		"it delays both directions": {does: func(p *natstest.Proxy) {
			p.Delay(100 * time.Millisecond)
			p.Delay(300*time.Millisecond, natstest.FromServer)
		}, takes: 400 * time.Millisecond},
		"it cuts the connection instead of the answer": {does: func(p *natstest.Proxy) {
			p.Tamper(natstest.Nth(1, natstest.AnswersTo("$KV.b.k"), natstest.Fate{Lost: true, Cut: true}))
		}, takes: time.Minute, fails: true, before: 1, after: 1},
		"it is half-open, which nobody can notice": {does: func(p *natstest.Proxy) {
			p.Blackhole(natstest.FromServer)
		}, takes: time.Minute, fails: true, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				srv := natstest.Start(t)
				_, direct := natstest.Connect(t, srv.URL())
				kv := newBucket(t, direct, jetstream.MemoryStorage)
				p := natstest.StartProxy(t, srv.URL())
				nc, js := natstest.Connect(t, p.URL(), nats.PingInterval(time.Hour))
				test.does(p)
				took, err := write(t, js, "v")
				if took != test.takes || (err != nil) != test.fails {
					t.Errorf("it took %v: %v", took, err)
				}
				if entry, err := kv.Get(t.Context(), "k"); err != nil || string(entry.Value()) != "v" {
					t.Errorf("the server has %v: %v", entry, err)
				}
				if n := nc.Stats().Reconnects; !nc.IsConnected() || n != test.before {
					t.Errorf("connected: %v, again %d times, want %d", nc.IsConnected(), n, test.before)
				}
				p.Resume()
				p.Delay(0)
				natstest.Eventually(t, "the client has its connection", func() bool {
					return nc.IsConnected() && nc.Stats().Reconnects == test.after
				})
				if took, err := write(t, js, "v"); err != nil || took != 0 {
					t.Errorf("after it: %v, %v", took, err)
				}
			})
		})
	}
}

func TestABlackHoleIsNoticedByPingsAtTheirTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := natstest.StartProxy(t, natstest.Start(t).URL())
		lost := make(chan time.Time, 1)
		natstest.Connect(t, p.URL(), nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
			nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- time.Now() }))
		p.Blackhole()
		began := time.Now()
		if took := (<-lost).Sub(began); took != 30*time.Second {
			t.Errorf("it was noticed after %v, not at the third ping after 30s", took)
		}
		p.Resume()
	})
}

func TestWhatIsSilentOrDownRefusesNewConnections(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		p := natstest.StartProxy(t, srv.URL())
		for name, breaks := range map[string]func(){
			"refused": p.Refuse, "a black hole": func() { p.Blackhole() },
			"held": func() { p.Hold() }, "its server is down": srv.Stop,
		} {
			breaks()
			if nc, err := nats.Connect(p.URL(), natstest.Dialer()); err == nil {
				nc.Close()
				t.Errorf("%s: a new connection", name)
			}
			p.Resume()
			must(t, srv.Start())
		}
		natstest.Connect(t, p.URL())
		if n := p.Connections(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestASnapshotIsRestoredInVirtualTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		nc, js := natstest.Connect(t, srv.URL())
		kv := newBucket(t, js, jetstream.FileStorage)
		_, err := kv.PutString(t.Context(), "k", "then")
		must(t, err)
		s, err := natstest.TakeSnapshot(t.Context(), nc, "KV_b")
		must(t, err)
		_, err = kv.PutString(t.Context(), "k", "later")
		must(t, err)
		must(t, js.DeleteKeyValue(t.Context(), "b"))
		must(t, s.Restore(t.Context(), nc))
		if entry, err := kv.Get(t.Context(), "k"); err != nil || string(entry.Value()) != "then" {
			t.Errorf("it reads %v: %v", entry, err)
		}
	})
}

// mistakes fail their test, and no other one of their process.
var mistakes = map[string]struct {
	says string
	make func(t *testing.T)
}{
	"a goroutine is left": {"chan receive (durable)", func(*testing.T) { go func() { <-make(chan int) }() }},
	"a server is left": {"server.(*", func(t *testing.T) {
		_, err := natstest.New()
		must(t, err)
	}},
	"a connection without the dialer": {"no servers available", func(t *testing.T) {
		_, err := nats.Connect(natstest.Start(t).URL(), nats.SetCustomDialer(&net.Dialer{}))
		must(t, err)
	}},
	"a connection to an address where nothing is": {"no servers available", func(t *testing.T) {
		_, err := nats.Connect("nats://127.0.0.1:7", natstest.Dialer())
		must(t, err)
	}},
	"a bubble of synctest": {"call natstest.Test in its place", func(t *testing.T) { natstest.Start(t) }},
}

func TestMistakesInVirtualTimeAreTold(t *testing.T) {
	const which = "NATSTEST_MISTAKE"
	if name := os.Getenv(which); name != "" {
		if name != "a bubble of synctest" {
			t.Run("mistaken", func(t *testing.T) { natstest.Test(t, mistakes[name].make) })
			t.Run("next", func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) { natstest.Connect(t, natstest.Start(t).URL()) })
				t.Log("the next test goes on")
			})
			return
		}
		synctest.Test(t, mistakes[name].make)
		return
	}
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMistakesInVirtualTimeAreTold$", "-test.v")
			cmd.Env = append(os.Environ(), which+"="+name, "TMPDIR="+t.TempDir()) // it leaves its store
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), mistake.says) ||
				name != "a bubble of synctest" && !strings.Contains(string(out), "the next test goes on") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestVirtualAndRealTimeTakeTurns in one process, also where a server of the one has just ended.
func TestVirtualAndRealTimeTakeTurns(t *testing.T) {
	for range 3 {
		t.Run("real", func(t *testing.T) {
			_, js := natstest.Connect(t, natstest.Start(t).URL())
			newBucket(t, js, jetstream.FileStorage)
		})
		t.Run("virtual", func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				_, js := natstest.Connect(t, natstest.Start(t).URL())
				newBucket(t, js, jetstream.FileStorage)
			})
		})
	}
}

// TestAnIdleServerIsIdleInVirtualTime: after ten seconds a server looks whether it may forget what it has in memory, by
// a clock that stands still for 100 ms at a time. In real time nobody sees how often it looks meanwhile.
func TestAnIdleServerIsIdleInVirtualTime(t *testing.T) {
	began := time.Now()
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		kv := newBucket(t, js, jetstream.FileStorage)
		for _, after := range []time.Duration{7 * time.Millisecond, 93*time.Millisecond + 1} {
			time.Sleep(after)
			_, err := kv.PutString(t.Context(), "k", "v")
			must(t, err)
		}
		time.Sleep(time.Minute)
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a minute of an idle server took %v", took)
	}
}

// TestTimersThatAreDueMayBeReadByManyAtOnce. With more than one processor the race detector ends the process here.
func TestTimersThatAreDueMayBeReadByManyAtOnce(t *testing.T) {
	natstest.Test(t, func(*testing.T) {
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for range 3000 {
					due := time.NewTimer(time.Microsecond)
					time.Sleep(2 * time.Microsecond)
					<-due.C
				}
			})
		}
		readers.Wait()
	})
}

// TestWhoTampersChangesWhatTheServerSays: data, the reply subject, and headers.
func TestWhoTampersChangesWhatTheServerSays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		p := natstest.StartProxy(t, srv.URL())
		nc, _ := natstest.Connect(t, p.URL())
		sub, err := nc.SubscribeSync("s")
		must(t, err)
		must(t, nc.Flush())
		p.Tamper(func(m *natstest.Message) natstest.Fate {
			if m.Direction == natstest.FromServer {
				m.Data = []byte("other data")
				m.Reply += ".there"
				m.SetHeader("Second", "longer than before")
				m.SetHeader("Missing", "is not made")
			}
			return natstest.Fate{}
		})
		direct, _ := natstest.Connect(t, srv.URL())
		for _, header := range []nats.Header{nil, {"First": {"1"}, "Second": {"2"}, "Third": {"3"}}} {
			must(t, direct.PublishMsg(&nats.Msg{Subject: "s", Reply: "back", Header: header, Data: []byte("data")}))
			m, err := sub.NextMsg(time.Second)
			must(t, err)
			if header != nil {
				header["Second"] = []string{"longer than before"}
			}
			if string(m.Data) != "other data" || m.Reply != "back.there" || !reflect.DeepEqual(m.Header, header) {
				t.Errorf("got %q, reply %q, headers %v; want headers %v", m.Data, m.Reply, m.Header, header)
			}
		}
	})
}
