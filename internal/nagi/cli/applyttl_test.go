package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
)

// lasts says for how long from now a website lasts by its TTL; 0: it has none.
func (w *world) lasts(key string) time.Duration {
	w.Helper()
	site, err := w.websites.Get(w.Context(), key)
	w.must(err)
	at, ok := entity.ExpiresAt(site)
	if !ok {
		return 0
	}
	return time.Until(at).Round(time.Second)
}

// wantLasts fails the test unless a website lasts that long.
func (w *world) wantLasts(key string, want time.Duration) {
	w.Helper()
	if got := w.lasts(key); got != want {
		w.Errorf("%s lasts %v, want %v", key, got, want)
	}
}

const (
	demoFile = "kind: Website\nmetadata: {name: demo, namespace: shop}\nspec: {pages: 1}\n"
	demo     = "Website.example.com/shop/demo "
)

func TestApplyWithATTLSetsItAnewEachTime(t *testing.T) {
	inWorld(t, func(w *world) {
		apply := []string{"apply", "-f", "-", "--ttl", "1h"}
		w.same(w.with(demoFile, 0, append(apply, "--dry-run")...).out, demo+"created, with a TTL of 1h0m0s (dry run)\n")
		w.same(w.value("websites", "shop.demo"), "")
		w.same(w.with(demoFile, 0, apply...).out, demo+"created, with a TTL of 1h0m0s\n")
		w.wantLasts("shop/demo", time.Hour)
		document, revision := w.value("websites", "shop.demo"), w.revision("websites", "shop.demo")

		time.Sleep(50 * time.Minute)
		w.same(w.with(demoFile, 0, append(apply, "--dry-run")...).out, demo+"renewed, with a TTL of 1h0m0s (dry run)\n")
		w.wantLasts("shop/demo", 10*time.Minute)
		if now := w.revision("websites", "shop.demo"); now != revision {
			t.Errorf("a dry run has written, at revision %d", now)
		}
		w.same(w.with(demoFile, 0, append(apply, "--wait")...).out, demo+"renewed, with a TTL of 1h0m0s\n")
		w.wantLasts("shop/demo", time.Hour)
		w.same(w.value("websites", "shop.demo"), document)

		time.Sleep(50 * time.Minute)
		w.same(w.with(demoFile, 0, "apply", "-f", "-").out, demo+"unchanged\n")
		more := strings.Replace(demoFile, "pages: 1", "pages: 2", 1)
		w.same(w.with(more, 0, "apply", "-f", "-").out, demo+"configured\n")
		w.wantLasts("shop/demo", 10*time.Minute)
		w.same(w.with(demoFile, 0, apply...).out, demo+"configured, with a TTL of 1h0m0s\n")
		w.wantLasts("shop/demo", time.Hour)
		w.same(w.with(demoFile, 0, "apply", "-f", "-", "--ttl", "90s", "-o", "name").out, strings.TrimSpace(demo)+"\n")
		time.Sleep(92 * time.Second)
		w.same(w.value("websites", "shop.demo"), "")
	})
}

func TestApplyGivesATTLToWhatHasNoneAndRemovesIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.with(demoFile, 0, "apply", "-f", "-")
		var told []map[string]any
		out := w.with(demoFile, 0, "apply", "-f", "-", "--ttl", "1h", "-o", "json").out
		w.must(json.Unmarshal([]byte(out), &told))
		if told[0]["result"] != "configured" || told[0]["ttl"] != "1h0m0s" ||
			told[0]["revision"] != float64(w.revision("websites", "shop.demo")) {
			t.Error(out)
		}
		w.wantLasts("shop/demo", time.Hour)
		w.same(w.with(demoFile, 0, "apply", "-f", "-", "--no-ttl", "--dry-run").out, demo+"configured (dry run)\n")
		w.wantLasts("shop/demo", time.Hour)
		w.same(w.with(demoFile, 0, "apply", "-f", "-", "--no-ttl").out, demo+"configured\n")
		w.wantLasts("shop/demo", 0)
		revision := w.revision("websites", "shop.demo")
		w.same(w.with(demoFile, 0, "apply", "-f", "-", "--no-ttl").out, demo+"unchanged\n")
		if now := w.revision("websites", "shop.demo"); now != revision {
			t.Errorf("what has no TTL was written to remove it, at revision %d", now)
		}
	})
}

func TestCreateWithATTL(t *testing.T) {
	inWorld(t, func(w *world) {
		w.same(w.with(demoFile, 0, "create", "-f", "-", "--ttl", "1h").out, demo+"created, with a TTL of 1h0m0s\n")
		w.wantLasts("shop/demo", time.Hour)
		w.with(demoFile, 5, "create", "-f", "-", "--ttl", "2h")
		w.wantLasts("shop/demo", time.Hour)
	})
}

// TestATTLIsSetAlsoIfAnotherWriterWasFasterWithTheSame document, which has no TTL.
func TestATTLIsSetAlsoIfAnotherWriterWasFasterWithTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		s, k := w.session()
		c, err := s.writer(w.Context(), k)
		w.must(err)
		const same = `{"spec":{"host":"home.example","pages":1}}`
		_, _, err = s.change(w.Context(), c, target{k, "shop/home"}, func(now *current) (map[string]any, error) {
			if w.value("websites", "shop.home") != same {
				w.put("websites", "shop.home", same)
			}
			return map[string]any{"spec": map[string]any{"host": "home.example", "pages": json.Number("1")}}, nil
		}, entity.WithTTL(time.Hour))
		w.must(err)
		w.same(w.value("websites", "shop.home"), same)
		w.wantLasts("shop/home", time.Hour)
	})
}

// TestATTLThatCannotBeIsRefusedByADryRunToo, and nothing is written.
func TestATTLThatCannotBeIsRefusedByADryRunToo(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain"})
		w.must(err)
		_, err = w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
			Bucket: "aging", TTL: time.Hour, LimitMarkerTTL: time.Hour,
		})
		w.must(err)
		w.put("aging", "there", `{"spec":{"x":1}}`)
		w.put("aging", "broken", "no JSON")
		const there, broken = `{"metadata":{"name":"there"},"spec":{"x":1}}`, `{"metadata":{"name":"broken"}}`
		for _, c := range []struct {
			file, bucket, ttl, says string
			code                    int
		}{
			{demoFile, "websites", "0", "--ttl 0s is over already", CodeUsage},
			{demoFile, "websites", "-5m", "--ttl -5m0s is over already", CodeUsage},
			{demoFile, "websites", "never", `--ttl "never" is no duration: write it as 30s`, CodeUsage},
			{demoFile, "websites", "900000h", "more than 90 years", CodeUsage},
			{there, "plain", "5m", "nats stream edit KV_plain --allow-msg-ttl", CodeUsage},
			{strings.ReplaceAll(there, "there", "new"), "aging", "2h", "nats stream edit KV_aging --max-age=2h0m0s", CodeUsage},
			{there, "aging", "2h", "nats stream edit KV_aging --max-age=2h0m0s", CodeUsage},
			{broken, "aging", "5m", "apply without --ttl first", CodeRefused},
		} {
			for _, dry := range []string{"--dry-run", "--dry-run=false"} {
				r := w.with(c.file, c.code, "apply", "-f", "-", "-b", c.bucket, "--ttl", c.ttl, dry)
				if !strings.Contains(r.err, c.says) {
					t.Errorf("%s of %s: %s", c.ttl, c.bucket, r.err)
				}
			}
		}
		r := w.with(demoFile, CodeUsage, "apply", "-f", "-", "--ttl", "5m", "--no-ttl")
		if !strings.Contains(r.err, "ttl") {
			t.Error(r.err)
		}
		for at, want := range map[[2]string]string{
			{"websites", "shop.demo"}: "", {"plain", "there"}: "", {"aging", "new"}: "",
			{"aging", "there"}: `{"spec":{"x":1}}`, {"aging", "broken"}: "no JSON",
		} {
			w.same(w.value(at[0], at[1]), want)
		}
	})
}
