package service

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// TestControllersComeAndGoWhileTheServiceRuns: who comes is answered for, who was removed has no endpoint, and the
// others are answered for throughout.
func TestControllersComeAndGoWhileTheServiceRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.run(w.controller("flat", s, flatConfig))
		w.run(s)
		w.answers("nagi.flat.read.stats")
		nc := w.js.Conn()
		served := func() (names []string) {
			msg, err := nc.Request("$SRV.INFO.nagi", nil, time.Second)
			if err != nil {
				return nil
			}
			var info micro.Info
			w.must(json.Unmarshal(msg.Data, &info))
			for _, e := range info.Endpoints {
				names = append(names, e.Metadata["controller"])
			}
			slices.Sort(names)
			return slices.Compact(names)
		}
		for range 2 {
			c := w.controller("sites", s, sitesConfig)
			halt := w.run(c)
			w.answers("nagi.sites.read.stats")
			if got := served(); !slices.Equal(got, []string{"flat", "sites"}) {
				t.Errorf("it lists %q", got)
			}
			halt()
			s.Remove(c.Controller)
			s.Remove("what it does not know")
			natstest.Eventually(w, "it is not listed", func() bool { return slices.Equal(served(), []string{"flat"}) })
			if _, err := nc.Request("nagi.sites.read.about", nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("it is answered for: %v", err)
			}
			w.answers("nagi.flat.read.stats")
		}
	})
}
