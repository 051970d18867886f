package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatNoRecordCanHoldIsItsOwnAffair: documents that one writer puts neither stop other keys nor raise an alarm.
func TestWhatNoRecordCanHoldIsItsOwnAffair(t *testing.T) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for name, test := range map[string]struct {
		document string
		want     string // the reason of the condition
	}{
		"as deep as JSON libraries read": {`{"spec":{},"more":` + nested(9998) + `}`, entity.ReasonInvalid},
		"deeper":                         {`{"spec":{},"more":` + nested(20000) + `}`, entity.ReasonInvalid},
		"deep enough":                    {`{"spec":{},"more":` + nested(900) + `}`, entity.ReasonSynced},
		"a policy as large as a document": {`{"spec":{},"metadata":{"annotations":{"nagi/deletion-policy":"` +
			strings.Repeat("x", 1_048_000) + `"}}}`, entity.ReasonSynced},
		"a name as large as a document": {`{"spec":{},"metadata":{"name":"` + strings.Repeat(`\u0000`, 150_000) + `"}}`,
			entity.ReasonInvalid},
		"of characters that records escape": {`{"spec":{"title":"` + strings.Repeat("<", 900_000) + `"}}`,
			entity.ReasonSynced},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), WithLeaseTiming(longLease))
				must(t, err)
				w.run(c)
				kv := w.kv("sites")
				for i := range 3 {
					_, err = kv.Put(t.Context(), fmt.Sprint("bad-", i), []byte(test.document))
					must(t, err)
				}
				must(t, sites.Create(t.Context(), newSite("home", "")))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				for i := range 3 {
					eventuallyReason(t, sites, fmt.Sprint("bad-", i), test.want)
				}
				if s := c.Stats(); s.RecordErrors != 0 {
					t.Errorf("%d failed writes of records", s.RecordErrors)
				}
				natstest.Eventually(t, "nothing is degraded",
					func() bool { return len(c.Stats().Degraded) == 0 }) // a late start was
			})
		})
	}
}

// brittle decodes, and encodes unless it is broken.
type brittle struct{ text string }

func (b *brittle) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &b.text) }

func (b brittle) MarshalJSON() ([]byte, error) {
	if b.text == "broken" {
		return nil, errors.New("it is broken")
	}
	return json.Marshal(b.text)
}

type brittleSite = entity.Object[struct {
	Text brittle `json:"text"`
}, entity.None]

// TestADocumentThatDoesNotEncodeIsItsOwnAffair: the user's type decodes it, and cannot write it down again.
func TestADocumentThatDoesNotEncodeIsItsOwnAffair(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, err := entity.NewClient[*brittleSite](t.Context(), w.js, entity.Config{Kind: "Site", Bucket: "sites"})
		must(t, err)
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		put := func(text string) {
			_, err := w.kv("sites").Put(t.Context(), "home", []byte(`{"spec":{"text":"`+text+`"}}`))
			must(t, err)
		}
		reason := func() (reason, message string) {
			if record, err := sites.Record(t.Context(), "home"); err == nil && len(record.Conditions) > 0 {
				reason, message = record.Conditions[0].Reason, record.Conditions[0].Message
			}
			return reason, message
		}
		for _, text := range []string{"whole", "broken", "whole"} {
			want := map[string]string{"whole": entity.ReasonSynced, "broken": entity.ReasonInvalid}[text]
			put(text)
			natstest.Eventually(t, text+": "+want, func() bool { is, _ := reason(); return is == want })
			if _, message := reason(); text == "broken" && !strings.Contains(message, "it is broken") {
				t.Errorf("message %q", message)
			}
		}
		if s := c.Stats(); s.RecordErrors != 0 {
			t.Errorf("%d failed writes of records", s.RecordErrors)
		}
		isHealthy(t, c)
		must(t, w.kv("sites").Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
	})
}
