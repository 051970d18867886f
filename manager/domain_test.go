package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestADomainThatNoServerCanHaveIsRefusedAtOnce: requests for it would go to a subject on which no server listens.
func TestADomainThatNoServerCanHaveIsRefusedAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		for _, cfg := range []Config{{Domain: "a b.>"}, {APIPrefix: "$JS.*.API"}} {
			cfg.URL = s.URL()
			began := time.Now()
			m, err := New(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), "Config.Domain or Config.APIPrefix") || time.Since(began) != 0 {
				t.Errorf("%+v: error %v after %v", cfg, err, time.Since(began))
			}
			if err == nil {
				must(t, m.Close(t.Context()))
			}
		}
		m := open(t, Config{URL: s.URL()})
		js, err := jetstream.NewWithDomain(m.Conn(), "a b.>")
		must(t, err)
		_, err = entity.NewClient[*entity.Object[struct{}, struct{}]](t.Context(), js,
			entity.Config{Kind: "Site", Bucket: "sites"})
		if err == nil || !strings.Contains(err.Error(), "no name of a domain") {
			t.Errorf("a client is made: %v", err)
		}
		must(t, m.Close(t.Context()))
	})
}
