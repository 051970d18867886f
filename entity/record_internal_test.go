package entity

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// benchRecords are the records of a client without a server, and an entry of 700 bytes as the status bucket has them.
func benchRecords(tb testing.TB) (*Records, natsinformer.Entry) {
	tb.Helper()
	cfg := Config{Kind: "Site", Bucket: "sites"}.withDefaults()
	c, err := newCodec[*echoSite](cfg, newKeyspace(cfg))
	if err != nil {
		tb.Fatal(err)
	}
	rec := echoRecord()
	rec.SchemaVersion = RecordSchemaVersion
	rec.LastDocument = []byte(`{"metadata":{"labels":{"app":"site-1","tier":"front"}},"spec":{"title":"` + strings.Repeat("title ", 60) + `","pages":3}}`)
	value, err := encodeRecord(rec)
	if err != nil {
		tb.Fatal(err)
	}
	return &Records{keys: c.keys, cfg: cfg, status: c, echoes: newEchoes()}, natsinformer.Entry{Key: "site-1", Revision: 7, Value: value}
}

// BenchmarkDecodeRecord makes the cached form of a record that came from the server: written by another process, or by this one.
func BenchmarkDecodeRecord(b *testing.B) {
	r, entry := benchRecords(b)
	b.Run("others", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.decode(entry); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("own", func(b *testing.B) {
		object := r.object("site-1", must(decodeRecord(entry.Value, entry.Revision)))
		b.ReportAllocs()
		for b.Loop() {
			r.echoes.add(entry.Key, entry.Value, object)
			if got, err := r.decode(entry); err != nil || got != object {
				b.Fatal(got, err)
			}
		}
	})
}
