package record_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

type thing struct {
	Name string `json:"name"`
}

const key = "_nagi.thing"

func TestACellKeepsItsValueInItsFormat(t *testing.T) {
	var s store
	b, _ := s.bucket()
	ctx := quiet(t)
	things, text := record.JSON[thing](b, key), record.Text(b, "_nagi.text")
	if _, found, err := things.Load(ctx); err != nil || found {
		t.Errorf("an absent key: found %v, %v", found, err)
	}
	for _, name := range []string{"first", "second"} {
		must(t, things.Store(ctx, thing{name}))
		if held, _ := s.has(key); held != `{"name":"`+name+`"}` {
			t.Errorf("holds %s", held)
		}
		if got, found, err := things.Load(ctx); err != nil || !found || got.Name != name {
			t.Errorf("loaded %+v, found %v, %v", got, found, err)
		}
	}
	must(t, text.Store(ctx, "plain"))
	if held, _ := s.has("_nagi.text"); held != "plain" {
		t.Errorf("holds %s", held)
	}
	must(t, things.Delete(ctx))
	must(t, things.Delete(ctx)) // an absent one is fine
	if _, ok := s.has(key); ok {
		t.Error("it is still there")
	}
}

func TestOnlyTheFirstGetOrCreateCreates(t *testing.T) {
	var s store
	b, _ := s.bucket()
	ctx := quiet(t)
	cell := record.JSON[thing](b, key)
	for _, name := range []string{"first", "second"} {
		if got, err := cell.GetOrCreate(ctx, thing{name}); err != nil || got.Name != "first" {
			t.Errorf("got %+v, %v; want the first", got, err)
		}
	}
	s.put(key, "") // a put of nothing by hand
	if got, err := cell.GetOrCreate(ctx, thing{"third"}); err != nil || got.Name != "third" {
		t.Errorf("got %+v, %v; want the third, as the key held nothing", got, err)
	}
}

// TestAnAnswerOfTheServerIsTheValueOfNoCell: somebody named the key as the reply subject of a request. Nobody wrote it,
// so it is replaced where the key is to be made, and believed nowhere.
func TestAnAnswerOfTheServerIsTheValueOfNoCell(t *testing.T) {
	const answer = `{"stream":"KV_sites-status","seq":12}`
	var s store
	b, board := s.bucket()
	ctx := quiet(t)
	things, text := record.JSON[thing](b, key), record.Text(b, "_nagi.text")
	s.put(key, answer)
	s.put("_nagi.text", answer)
	_, _, err := things.Load(ctx)
	_, _, textErr := text.Load(ctx)
	for _, err := range []error{err, textErr} {
		if !errors.Is(err, record.ErrUnreadable) || !strings.Contains(err.Error(), "answer of the server") {
			t.Errorf("loaded with %v", err)
		}
	}
	if n := len(board.Degraded()); n != 2 {
		t.Errorf("degraded: %v", board.Degraded())
	}
	if got, err := things.GetOrCreate(ctx, thing{"ours"}); err != nil || got.Name != "ours" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := text.GetOrCreate(ctx, "ours"); err != nil || got != "ours" {
		t.Errorf("got %q, %v", got, err)
	}
	if len(board.Degraded()) != 0 {
		t.Errorf("degraded: %v", board.Degraded())
	}
}

func TestOfTwoThatGetOrCreateAtOnceBothGetTheValueOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		s.once("put", func() { s.put(key, `{"name":"theirs"}`) })
		got, err := record.JSON[thing](b, key).GetOrCreate(quiet(t), thing{"ours"})
		if held, _ := s.has(key); err != nil || got.Name != "theirs" || held != `{"name":"theirs"}` {
			t.Errorf("got %+v, %v, and %s is there; want theirs", got, err, held)
		}
	})
}

func TestStoreAndDeleteActOnWhateverIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		ctx, cell := quiet(t), record.JSON[thing](b, key)
		s.once("put", func() { s.put(key, "theirs") })
		must(t, cell.Store(ctx, thing{"ours"}))
		if held, _ := s.has(key); held != `{"name":"ours"}` {
			t.Errorf("holds %s", held)
		}
		s.once("delete", func() { s.put(key, "theirs") })
		must(t, cell.Delete(ctx))
		if held, ok := s.has(key); ok {
			t.Errorf("holds %s", held)
		}
		s.put(key, "theirs")
		s.once("delete", func() { s.remove(key) })
		must(t, cell.Delete(ctx))
	})
}

func TestExistsAlsoSeesWhatDoesNotDecode(t *testing.T) {
	var s store
	b, board := s.bucket()
	cell := record.JSON[thing](b, key)
	for _, held := range []string{"", "go", `{"name":"x"}`} {
		s.put(key, held)
		if ok, err := cell.Exists(quiet(t)); err != nil || !ok {
			t.Errorf("%q: exists %v, %v", held, ok, err)
		}
	}
	s.remove(key)
	if ok, err := cell.Exists(quiet(t)); err != nil || ok {
		t.Errorf("an absent key: exists %v, %v", ok, err)
	}
	if all := board.Degraded(); all != nil {
		t.Errorf("degraded: %v", all)
	}
}

// TestNothingIsLostWhileNATSIsAway: each method tries until it gets an answer, with pauses that grow up to a bound.
func TestNothingIsLostWhileNATSIsAway(t *testing.T) {
	for name, do := range map[string]func(context.Context, record.Cell[thing]) error{
		"GetOrCreate": func(ctx context.Context, c record.Cell[thing]) error {
			_, err := c.GetOrCreate(ctx, thing{})
			return err
		},
		"Load":   func(ctx context.Context, c record.Cell[thing]) error { _, _, err := c.Load(ctx); return err },
		"Store":  func(ctx context.Context, c record.Cell[thing]) error { return c.Store(ctx, thing{}) },
		"Delete": func(ctx context.Context, c record.Cell[thing]) error { return c.Delete(ctx) },
		"Exists": func(ctx context.Context, c record.Cell[thing]) error { _, err := c.Exists(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s store
				s.put(key, `{"name":"x"}`)
				b, _ := s.bucket()
				const requests = 20
				asked, start := s.failing(requests, errAway), time.Now()
				must(t, do(quiet(t), record.JSON[thing](b, key)))
				// The sum of the shortest and of the longest pauses: 20 ms that double up to 2 s.
				if took := time.Since(start); asked() <= requests || took < 14*time.Second || took > 29*time.Second {
					t.Errorf("%d requests in %v", asked(), took)
				}
			})
		})
	}
}

// TestARequestThatIsNotAnsweredIsSentAgain, since a broken connection may have swallowed it.
func TestARequestThatIsNotAnsweredIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		swallowed := 0
		s.before = func(ctx context.Context, _, _ string) error {
			if swallowed++; swallowed > 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		must(t, record.JSON[thing](b, key).Store(quiet(t), thing{"x"}))
		if took := time.Since(start); took < 15*time.Second || took > 16*time.Second {
			t.Errorf("took %v, want three requests of 5 s", took)
		}
	})
}

func TestTheEndOfTheContextEndsTheTriesAndTheErrorSaysWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		s.failing(1000, errAway)
		ctx, cancel := context.WithTimeoutCause(quiet(t), time.Minute, errors.New("stopped"))
		defer cancel()
		start := time.Now()
		err := record.JSON[thing](b, key).Store(ctx, thing{})
		if took := time.Since(start); took != time.Minute || !errors.Is(err, errAway) {
			t.Errorf("%v after %v", err, took)
		}
		for _, part := range []string{"write", key, "sites-status", "stopped"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if all := board.Degraded(); all != nil {
			t.Errorf("degraded by a stop: %v", all)
		}
	})
}

// TestWhatFailsForLongIsReportedUntilItIsOver: somebody waits for the answer, and would not know why.
func TestWhatFailsForLongIsReportedUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		s.failing(20, errAway)
		stored := make(chan error)
		go func() { stored <- record.JSON[thing](b, key).Store(quiet(t), thing{}) }()
		time.Sleep(400 * time.Millisecond)
		if all := board.Degraded(); all != nil {
			t.Errorf("degraded at once: %v", all)
		}
		time.Sleep(1600 * time.Millisecond)
		if reported := board.Degraded()[key+" (bucket sites-status)"]; !errors.Is(reported, errAway) {
			t.Errorf("after two seconds: %v", board.Degraded())
		}
		must(t, <-stored)
		if all := board.Degraded(); all != nil {
			t.Errorf("still degraded: %v", all)
		}
	})
}

// TestWhatDoesNotDecodeIsReportedUntilItIsMended or removed or written, by whoever does it.
func TestWhatDoesNotDecodeIsReportedUntilItIsMended(t *testing.T) {
	load := func(ctx context.Context, c record.Cell[thing]) error { _, _, err := c.Load(ctx); return err }
	for name, mend := range map[string]func(context.Context, *store, record.Cell[thing]) error{
		"mended by hand": func(ctx context.Context, s *store, c record.Cell[thing]) error {
			s.put(key, `{"name":"x"}`)
			return load(ctx, c)
		},
		"removed by hand": func(ctx context.Context, s *store, c record.Cell[thing]) error {
			s.remove(key)
			return load(ctx, c)
		},
		"stored":  func(ctx context.Context, _ *store, c record.Cell[thing]) error { return c.Store(ctx, thing{}) },
		"deleted": func(ctx context.Context, _ *store, c record.Cell[thing]) error { return c.Delete(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			var s store
			b, board := s.bucket()
			ctx, cell := quiet(t), record.JSON[thing](b, key)
			s.put(key, "release please")
			_, found, err := cell.Load(ctx)
			if !found || !errors.Is(err, record.ErrUnreadable) ||
				!strings.Contains(err.Error(), "mend or delete the key") {
				t.Errorf("loaded: found %v, %v", found, err)
			}
			if _, err := cell.GetOrCreate(ctx, thing{}); !errors.Is(err, record.ErrUnreadable) {
				t.Errorf("GetOrCreate: %v", err)
			}
			if reported := board.Degraded()[key+" (bucket sites-status)"]; !errors.Is(reported, record.ErrUnreadable) {
				t.Errorf("reported %v", board.Degraded())
			}
			must(t, mend(ctx, &s, cell))
			if all := board.Degraded(); all != nil {
				t.Errorf("still degraded: %v", all)
			}
		})
	}
}

func TestKeysAboutAPrimaryAreItsKeyOrAHashOfALongOne(t *testing.T) {
	long := strings.Repeat("k", 513)
	for _, tt := range []struct{ got, want string }{
		{record.LeftKey("home"), "_nagi.left.home"},
		{record.LeftKey("shop/home"), "_nagi.left.shop.home"},
		{record.IntentsKey(long[:512]), "_nagi.intents." + long[:512]},
		{record.IntentsKey(long), "_nagi.intents.45a7c7ef95c3417e800362f5672aba16da807261fe7121f3a81b0a0fb6b9a05c"},
		{
			record.LeftKey("shop/" + long[5:]), // hashed as it would be plain, with a dot
			"_nagi.left.3d825d5b5e2f53ede0a77df39a799fa131a1f808dff847c1f54563c4a126c4a6",
		},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}
