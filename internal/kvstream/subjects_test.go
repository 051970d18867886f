package kvstream_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/internal/kvstream"
)

type (
	config = jetstream.StreamConfig
	source = jetstream.StreamSource
	rename = jetstream.SubjectTransformConfig
)

func TestWhereDocumentsAre(t *testing.T) {
	origin := &source{Name: "KV_o"}
	renamed := &source{Name: "KV_o", SubjectTransforms: []rename{{Source: "$KV.o.>", Destination: "$KV.b.>"}}}
	for name, c := range map[string]struct {
		stream config
		want   kvstream.Documents
	}{
		"a bucket":      {config{Subjects: []string{"$KV.b.>"}}, kvstream.Documents{Prefix: "$KV.b."}},
		"a part of it":  {config{Subjects: []string{"$KV.b.x.*"}}, kvstream.Documents{Prefix: "$KV.b."}},
		"of many":       {config{Subjects: []string{"foo.>", "$KV.*.>"}}, kvstream.Documents{Prefix: "$KV.b."}},
		"of everything": {config{Subjects: []string{">"}}, kvstream.Documents{Prefix: "$KV.b."}},
		"and of its source": {config{Subjects: []string{"$KV.b.>"}, Sources: []*source{renamed}}, kvstream.Documents{
			Prefix: "$KV.b.",
		}},
		"and of another": {config{Subjects: []string{"$KV.b.>"}, Sources: []*source{origin}}, kvstream.Documents{
			Prefix: "$KV.b.", Others: "$KV.o.>",
		}},
		"a mirror": {config{Mirror: origin}, kvstream.Documents{
			Prefix: "$KV.o.", ReadOnly: true, Guessed: true, Why: "it is a mirror of KV_o",
		}},
		"a mirror in another domain": {config{Mirror: &source{Name: "KV_b"}}, kvstream.Documents{
			Prefix: "$KV.b.", ReadOnly: true, Guessed: true, Why: "it is a mirror of KV_b",
		}},
		"a mirror of a part": {config{Mirror: &source{Name: "KV_o", FilterSubject: "$KV.o.x.>"}}, kvstream.Documents{
			Prefix: "$KV.o.", ReadOnly: true, Why: "it is a mirror of KV_o",
		}},
		"a mirror that renames": {config{Mirror: renamed}, kvstream.Documents{
			Prefix: "$KV.b.", ReadOnly: true, Why: "it is a mirror of KV_o",
		}},
		"a mirror that computes": {
			config{Mirror: &source{Name: "KV_o", SubjectTransforms: []rename{
				{Source: "$KV.o.*.*", Destination: "$KV.b.{{wildcard(2)}}.$1"},
			}}},
			kvstream.Documents{Prefix: "$KV.b.", ReadOnly: true, Why: "it is a mirror of KV_o"},
		},
		"only a source": {config{Sources: []*source{origin}}, kvstream.Documents{
			Prefix: "$KV.o.", ReadOnly: true, Guessed: true, Why: "it only takes what its sources bring, of KV_o",
		}},
		"only a source that renames": {config{Sources: []*source{renamed}}, kvstream.Documents{
			Prefix: "$KV.b.", ReadOnly: true, Why: "it only takes what its sources bring, of KV_o",
		}},
		"renamed from outside": {
			config{Subjects: []string{"foo.>"}, SubjectTransform: &rename{Source: "foo.>", Destination: "$KV.b.>"}},
			kvstream.Documents{
				Prefix: "$KV.b.", ReadOnly: true, Why: "its subject transform stores foo.> as $KV.b.>",
			},
		},
		"renamed to another": {
			config{Subjects: []string{"$KV.b.>"}, SubjectTransform: &rename{Destination: "$KV.c.>"}},
			kvstream.Documents{Prefix: "$KV.c.", ReadOnly: true, Why: "its subject transform stores > as $KV.c.>"},
		},
		"something else renamed": {
			config{
				Subjects:         []string{"$KV.b.>", "foo.>"},
				SubjectTransform: &rename{Source: "foo.>", Destination: "bar.>"},
			},
			kvstream.Documents{Prefix: "$KV.b."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.stream.Name = "KV_b"
			got, err := kvstream.FindDocuments("b", kvstream.StreamOf(c.stream))
			if err != nil || got != c.want {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
			text, err := json.Marshal(c.stream)
			if err != nil {
				t.Fatal(err)
			}
			var read kvstream.Stream
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			if again, err := kvstream.FindDocuments("b", read); err != nil || again != got {
				t.Fatalf("as the API writes it: %+v, %v", again, err)
			}
		})
	}
}

func TestAStreamWithoutDocumentsIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		stream config
		said   string
	}{
		"other subjects": {config{Subjects: []string{"foo.>", "$KV.bb.>", "$KV.c.>"}}, "foo.>, $KV.bb.>, $KV.c.>"},
		"a token less":   {config{Subjects: []string{"$KV.b"}}, "$KV.b and not"},
		"none":           {config{}, "no subject at all"},
		"a mirror of no bucket": {
			config{Mirror: &source{Name: "ORDERS"}}, "the subjects of ORDERS and not $KV.b.> (it is a mirror of ORDERS)",
		},
		"in parts": {
			config{Mirror: &source{Name: "KV_o", SubjectTransforms: []rename{
				{Source: "$KV.o.>", Destination: "{{partition(256)}}.>"},
			}}},
			"it stores {{partition(256)}}.>",
		},
		"two sources": {
			config{Sources: []*source{{Name: "KV_o"}, {Name: "KV_p"}}}, "$KV.o.>, $KV.p.> and not",
		},
		"renamed": {
			config{Subjects: []string{"$KV.b.>"}, SubjectTransform: &rename{Source: "$KV.b.>", Destination: "bar.>"}},
			"its subject transform stores $KV.b.> as bar.>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.stream.Name = "KV_b"
			_, err := kvstream.FindDocuments("b", kvstream.StreamOf(c.stream))
			if err == nil || !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), "KV_b") {
				t.Fatalf("%v; want it to say %q", err, c.said)
			}
		})
	}
}
