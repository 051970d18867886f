package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go"
)

// relayed passes what is asked below the prefix "relay" on to the controllers, with one entry on a page, and calls
// between before it answers each page but the first of a list. It returns the flags to ask there.
func (w *world) relayed(verb string, between func()) []string {
	w.Helper()
	sub, err := w.nc.Subscribe("relay.>", func(m *nats.Msg) {
		subject, body := "nagi."+strings.TrimPrefix(m.Subject, "relay."), m.Data
		if strings.HasSuffix(subject, ".read."+verb) {
			var about map[string]any
			_ = json.Unmarshal(body, &about)
			if about["limit"] = 1; about["after"] != nil {
				between()
			}
			body, _ = json.Marshal(about)
		}
		answer, err := w.nc.Request(subject, body, 5e9)
		if err == nil {
			_ = m.RespondMsg(&nats.Msg{Data: answer.Data, Header: answer.Header})
		}
	})
	w.must(err)
	w.Cleanup(func() { _ = sub.Unsubscribe() })
	return []string{"--prefix", "relay"}
}

// once calls do once.
func once(do func()) func() {
	done := false
	return func() {
		if !done {
			done = true
			do()
		}
	}
}

func TestAListIsOfOneMoment(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		back := func(i int) {
			w.put("websites", fmt.Sprintf("shop.s%03d", i), `{"spec":{"host":"s.example","pages":1}}`)
		}
		via := w.relayed("brake-list", once(func() { back(0); time.Sleep(time.Second) }))
		var all []braked
		w.must(json.Unmarshal([]byte(w.runs(CodeNotSo, append(via, "brake", "websites", "-o", "json"))), &all))
		if n := len(all[0].Keys); n != vanishing-1 || n != all[0].Brake.Count || strings.Contains(fmt.Sprint(all[0].Keys), "s000") {
			t.Errorf("%d keys, and the brake has %d: %v", n, all[0].Brake.Count, all[0].Keys)
		}
		w.runs(CodeRefused, append(via, "brake", "release", "websites", "--expect", "12"), "there are 11")
	})
	inBrakedWorld(t, func(w *world) {
		i := 0
		via := w.relayed("brake-list", func() {
			w.put("websites", fmt.Sprintf("shop.s%03d", i), `{"spec":{"host":"s.example","pages":1}}`)
			i++
			time.Sleep(time.Second)
		})
		w.runs(CodeRefused, append(via, "brake", "release", "websites", "--expect", "12"), "changed while its pages were read")
	})
	inOrphanedWorld(t, func(w *world) {
		via := w.relayed("orphans", once(func() { w.put("websites", "shop.young", `{"spec":{"host":"y.example"}}`); time.Sleep(time.Second) }))
		var all []orphaned
		w.must(json.Unmarshal([]byte(w.ok(append(via, "orphans", "websites", "-o", "json")...)), &all))
		if n := len(all[0].Orphans.Orphans); n != 1 || all[0].Count+all[0].Kept != n {
			t.Errorf("%d are listed, and there are %d and %d", n, all[0].Count, all[0].Kept)
		}
	})
}

// Whoever may write the registry must not have an operator's release written into a bucket of anything else.
func TestAReleaseIsLeftInTheControllersBucketAlone(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		w.stopController()
		kv, err := w.js.KeyValue(w.Context(), registry.Bucket)
		w.must(err)
		const key = "Website.example.com"
		entry, err := kv.Get(w.Context(), key)
		w.must(err)
		w.bucket("prey")
		w.put("prey", "_nagi.brake", w.value("websites-status", "_nagi.brake"))
		for _, owner := range []string{"", "another"} {
			if owner != "" {
				w.put("prey", "_nagi.controller", owner)
			}
			_, err = kv.Put(w.Context(), key,
				[]byte(strings.ReplaceAll(string(entry.Value()), `"websites-status"`, `"prey"`)))
			w.must(err)
			w.runs(CodeRefused, []string{"brake", "release", "websites", "--offline", "--expect", "12"},
				`bucket "prey" is not the status bucket of controller "websites"`, owner)
			w.same(w.value("prey", "_nagi.release"), "")
		}
	})
}
