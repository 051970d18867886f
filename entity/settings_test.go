package entity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
)

// setting is one of a bucket that exists, and what NewClient says about it.
type setting struct {
	set func(*jetstream.StreamConfig)
	// refused is what the error says, and warned what the warnings say: nothing else.
	refused, warned []string
	// mend does what the text says; nil if the text says that nothing can be done. Then nothing is said any more.
	mend func(*jetstream.StreamConfig)
	// ofRecords says that the bucket is the status bucket.
	ofRecords bool
}

var settings = map[string]setting{
	"as NewClient makes it": {set: func(*jetstream.StreamConfig) {}},
	"every update is refused": {
		set:     func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true },
		refused: []string{"discard_new_per_subject", "nats stream edit KV_websites --no-discard-per-subject"},
		mend:    func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false },
	},
	"a subject transform": {
		set: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: "$KV.websites.>", Destination: "$KV.elsewhere.>",
			}
		},
		refused: []string{"subject transform", `"$KV.elsewhere.>"`, "nats stream edit KV_websites --no-transform"},
		mend:    func(c *jetstream.StreamConfig) { c.SubjectTransform = nil },
	},
	"a subject transform that changes nothing": {
		set: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: "$KV.websites.>", Destination: "$KV.websites.>",
			}
		},
	},
	"a subject transform of some keys": {
		set: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: "$KV.websites.old.>", Destination: "$KV.websites.new.>",
			}
		},
		refused: []string{"subject transform", "--no-transform"},
		mend:    func(c *jetstream.StreamConfig) { c.SubjectTransform = nil },
	},
	"other subjects": {
		set:     func(c *jetstream.StreamConfig) { c.Subjects = []string{"sites.>"} },
		refused: []string{"it is no KV bucket", "nats stream edit KV_websites --subjects='$KV.websites.>'"},
		mend:    func(c *jetstream.StreamConfig) { c.Subjects = []string{"$KV.websites.>"} },
	},
	"more subjects": {
		set:     func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "sites.>") },
		refused: []string{"it is no KV bucket", `"sites.>"`},
		mend:    func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] },
	},
	"history with message TTLs": {
		set:     func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		refused: []string{"history 5 with TTLs", "brings the one before it back", "--max-msgs-per-subject=1"},
		mend:    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
	},
	"history without end with message TTLs": {
		set:     func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
		refused: []string{"history -1 with TTLs", "--max-msgs-per-subject=1"},
		mend:    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
	},
	"history": {
		set:    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.AllowMsgTTL = 5, false },
		warned: []string{"markers of deletes stay for ever", "nats stream edit KV_websites --allow-msg-ttl"},
	},
	"no message TTLs": {
		set:    func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false },
		warned: []string{"markers of deletes stay for ever", "nats stream edit KV_websites --allow-msg-ttl"},
		mend:   func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
	},
	"an age without markers": {
		set:     func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		refused: []string{"TTL of 1h0m0s and no limit markers", "--subject-del-markers-ttl=1h"},
		mend:    func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
	},
	"an age with markers": {
		set:    func(c *jetstream.StreamConfig) { c.MaxAge, c.SubjectDeleteMarkerTTL = time.Hour, time.Minute },
		warned: []string{"older than 1h0m0s", "Config.DocumentsExpire", "nats stream edit KV_websites --max-age=-1"},
		mend:   func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
	},
	"an age of records": {
		set:       func(c *jetstream.StreamConfig) { c.MaxAge, c.SubjectDeleteMarkerTTL = time.Hour, time.Minute },
		refused:   []string{`"websites-status"`, "record that expires", "nats stream edit KV_websites-status --max-age=-1"},
		mend:      func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
		ofRecords: true,
	},
	"old messages go for their number": {
		set:     func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 100 },
		refused: []string{"discards old messages when it has 100 of them", "--discard=new"},
		mend:    func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew },
	},
	"old messages go for their size": {
		set:     func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
		refused: []string{"discards old messages", "1048576 bytes", "--discard=new"},
		mend:    func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew },
	},
	"old messages would go for no limit": {set: func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
	"limits that refuse writes": {
		set: func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxBytes = 100, 1<<20 },
	},
	"what is read goes": {
		set:     func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		refused: []string{"retention is Interest", "make it limits"},
		mend:    func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy },
	},
	"no acknowledgements": {
		set:     func(c *jetstream.StreamConfig) { c.NoAck = true },
		refused: []string{"does not acknowledge", "nats stream edit KV_websites --ack"},
		mend:    func(c *jetstream.StreamConfig) { c.NoAck = false },
	},
	"counters": {
		set: func(c *jetstream.StreamConfig) {
			c.AllowMsgCounter, c.AllowMsgTTL, c.Discard = true, false, jetstream.DiscardOld
		},
		refused: []string{"stream of counters", "name another bucket"},
	},
	"acknowledged before it is stored": {
		set: func(c *jetstream.StreamConfig) {
			c.PersistMode, c.Storage = jetstream.AsyncPersistMode, jetstream.FileStorage
		},
		warned: []string{"persist_mode async", "copy it to another bucket"},
	},
	"small messages": {
		set:     func(c *jetstream.StreamConfig) { c.MaxMsgSize = 600 },
		refused: []string{`max_msg_size of bucket "websites" is 600`, "raise it"},
		mend:    func(c *jetstream.StreamConfig) { c.MaxMsgSize = 60_000 },
	},
	"messages that are larger than the server takes": {set: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 64 << 20 }},
	"a source without a transform": {
		set: func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_origin"}} },
		refused: []string{"its sources bring $KV.origin.>, which are no keys of this bucket",
			"a subject transform to $KV.websites.>"},
		mend: func(c *jetstream.StreamConfig) {
			c.Sources[0].SubjectTransforms = []jetstream.SubjectTransformConfig{
				{Source: "$KV.origin.>", Destination: "$KV.websites.>"},
			}
		},
	},
	"a mirror": {
		set: func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "KV_origin"}, nil
		},
	},
	"a mirror of what is no bucket": {
		set: func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "ORDERS"}, nil
		},
		refused: []string{"keeps no documents of the bucket", "it is a mirror of ORDERS"},
	},
	"a mirror that forgets": {
		set: func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects, c.MaxAge = &jetstream.StreamSource{Name: "KV_origin"}, nil, time.Hour
		},
		refused: []string{"TTL of 1h0m0s of its own", "still at their origin", "--max-age=-1"},
		mend:    func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
	},
	"a mirror where nothing expires": {
		set: func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects, c.AllowMsgTTL = &jetstream.StreamSource{Name: "KV_origin"}, nil, false
		},
		warned: []string{"what expires at its origin", "nats stream edit KV_websites --allow-msg-ttl"},
		mend:   func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
	},
	"a mirror that allows rollups": {
		set: func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects, c.AllowRollup = &jetstream.StreamSource{Name: "KV_origin"}, nil, true
		},
	},
	"sealed": {
		set:    func(c *jetstream.StreamConfig) { c.Sealed = true },
		warned: []string{"is sealed", "copy it to another bucket"},
	},
	"messages can be deleted": {set: func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
	"purges are denied":       {set: func(c *jetstream.StreamConfig) { c.DenyPurge = true }},
	"rollups": {
		set:    func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		warned: []string{"allows rollups", "nats stream edit KV_websites --no-allow-rollup"},
		mend:   func(c *jetstream.StreamConfig) { c.AllowRollup = false },
	},
	"republished": {
		set: func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		},
	},
	"no direct gets": {set: func(c *jetstream.StreamConfig) { c.AllowDirect = false }},
	"batches":        {set: func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true }},
}

// TestWhatIsSaidOfEachSettingOfABucketThatExists: and that it is said no more when it was done. BindOnly or not is one.
func TestWhatIsSaidOfEachSettingOfABucketThatExists(t *testing.T) {
	for name, test := range settings {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			_, err := js.CreateKeyValue(testContext(t), jetstream.KeyValueConfig{Bucket: "origin"})
			must(t, err)
			cfg := websites
			cfg.Namespaced = true
			newClient[*Website](t, js, cfg).Close()
			made := "websites"
			if test.ofRecords {
				made = "websites-status"
			}
			config := streamConfig(t, js, "KV_"+made)
			must(t, js.DeleteStream(testContext(t), "KV_"+made))
			test.set(&config)
			sealed := config.Sealed
			config.Sealed = false // a stream is sealed when it is there
			_, err = js.CreateStream(testContext(t), config)
			must(t, err)
			if config.Sealed = sealed; sealed {
				_, err = js.UpdateStream(testContext(t), config)
				must(t, err)
			}
			for _, cfg.BindOnly = range []bool{false, true} {
				says(t, js, cfg, test.refused, test.warned)
			}
			if test.mend == nil {
				return
			}
			config = streamConfig(t, js, "KV_"+made)
			test.mend(&config)
			_, err = js.UpdateStream(testContext(t), config)
			must(t, err)
			warned := slices.DeleteFunc([]string{"allows rollups"}, func(string) bool { return !config.AllowRollup })
			says(t, js, cfg, nil, warned) // an age needs markers, and these rollups
		}))
	}
}

// says fails unless a client of cfg is refused, or warned, with these texts.
func says(t *testing.T, js jetstream.JetStream, cfg entity.Config, refused, warned []string) {
	t.Helper()
	client, err := entity.NewClient[*Website](testContext(t), js, cfg)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if (err != nil) != (len(refused) > 0) {
		t.Fatalf("error %v, want one with %q", err, refused)
	}
	for _, want := range refused {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
	if err != nil {
		return
	}
	defer client.Close()
	said = strings.Join(client.Warnings(), "\n")
	if (said != "") != (len(warned) > 0) {
		t.Errorf("warnings %q, want some with %q", said, warned)
	}
	for _, want := range warned {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}
