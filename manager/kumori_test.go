package manager

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/kubernetes/fake"
)

type kumori = controllerruntime.ControllerRuntime[
	*site, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None,
]

type custom struct {
	*kumori
	synced chan string
}

func (c *custom) SyncHandler(key string) error {
	select {
	case c.synced <- key:
	default:
	}
	return nil
}

func newKumori(sites *entity.Client[*site]) *kumori {
	return controllerruntime.NewControllerRuntime[
		*site, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None, *entity.None,
	]("kumori", "Site", fake.NewClientset(), sites, nil, nil,
		nil, nil, nil, nil, nil, nil, nil, nil, nil, time.Minute)
}

func TestAControllerOfTheKumoriAPIRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		c := client(t, m, sites())
		own := &custom{newKumori(c), make(chan string, 1)}
		own.SetCustomController(own)
		must(t, m.Add(Kumori("kumori", own, 2)))
		r := start(t, m)
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		if key := <-own.synced; key != "home" {
			t.Error(key)
		}
		must(t, r.stop())
	})
}

func TestAnErrorOfTheKumoriAPIStopsAll(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		rest, _ := blocking("rest")
		must(t, m.Add(rest, Kumori("kumori", newKumori(client(t, m, sites())), 1)))
		mustSay(t, start(t, m).wait(), "kumori: ", "SetCustomController")
	})
}

type early struct{}

func (early) Run(int, <-chan struct{}, chan<- error) {}

func TestAKumoriControllerThatReturnsEarlyIsAFailure(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		mustSay(t, Kumori("x", early{}, 1).Run(context.Background()), "returned before it was stopped")
	})
}
