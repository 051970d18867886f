package source

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

type site = entity.Object[struct{}, struct{}]

// startedPrimary is a source of sites whose client is started.
func startedPrimary(t *testing.T) (*Primary[*site], *entity.Client[*site], jetstream.JetStream) {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, err := entity.NewClient[*site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sites.Close)
	if _, err := sites.Start(); err != nil {
		t.Fatal(err)
	}
	s := NewPrimary(sites, nil, Predicates{}, false, nil, false, nil)
	s.keepInformer()
	return s, sites, js
}

// TestAClosedClientChangesNothingThatIsKnownOfItsStream.
func TestAClosedClientChangesNothingThatIsKnownOfItsStream(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, sites, js := startedPrimary(t)
		if _, err := js.Publish(t.Context(), "$KV.sites.home", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the cache has it", func() bool { return s.View("home").Presence == Present })
		before := s.Stream()
		sites.Close()
		if now := s.Stream(); now.Created != before.Created || now.Highest != before.Highest || !s.Exists("home") {
			t.Errorf("the stream was %+v and is %+v", before, now)
		}
	})
}

// TestManyInvalidDocumentsCostNoMoreEachThanFew: a look at one does not copy what is known of all.
func TestManyInvalidDocumentsCostNoMoreEachThanFew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const n = 100
		s, sites, js := startedPrimary(t)
		for _, document := range []string{`{}`, `{"spec":`} {
			for i := range n {
				if _, err := js.Publish(t.Context(), fmt.Sprint("$KV.sites.site-", i), []byte(document)); err != nil {
					t.Fatal(err)
				}
			}
			natstest.Eventually(t, "all are known", func() bool { return len(s.Keys()) == n })
		}
		natstest.Eventually(t, "all are known to be invalid", func() bool {
			return sites.Informer().Status().Invalid == n
		})
		before := allocated()
		for i := range n {
			if s.View(fmt.Sprint("site-", i)).Presence != Invalid {
				t.Fatal("it is not invalid")
			}
		}
		if each := (allocated() - before) / n; each > 1000 { // a copy of all of them takes more
			t.Errorf("each look at one allocates %d bytes", each)
		}
	})
}

// allocated is how many bytes the process has allocated until now.
func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}
