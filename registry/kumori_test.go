package registry

import (
	"testing"

	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

type none = entity.None

type runtime = controllerruntime.ControllerRuntime[*site, *none, *none, *none, *none, *none, *none, *none, *none]

// kumori is a controller of the Kumori API that does nothing.
type kumori struct{ *runtime }

func (kumori) SyncHandler(string) error { return nil }

func TestAKumoriControllerPublishesToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := client[*site](w, w.js, sitesConfig)
		r := controllerruntime.NewControllerRuntime[*site, *none, *none, *none, *none, *none, *none, *none, *none](
			"sites", "Site", nil, sites, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 0)
		w.must(r.WithOptions(Publish(Options{Interval: soon})))
		r.SetCustomController(kumori{r})
		stop, ended := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 1)
		go func() {
			defer close(ended)
			r.Run(1, stop, errs)
		}()
		entry := w.published("the kind is published", anything)
		if entry.DescribedBy != "sites" {
			t.Errorf("the entry is %+v", entry)
		}
		close(stop)
		<-ended
		select {
		case err := <-errs:
			t.Error(err)
		default:
		}
	})
}
