package service

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"k8s.io/klog/v2"
)

// registrations are the services of the library that were made one after the other, of which the last answers.
//
// A connection that comes back subscribes again to all that it has, what it is about to give up included, and then
// forgets that without a word to the server. The server would go on to give such a subscription its share of the
// requests, which get no reply. So a service is stopped only while the server is there; and if the connection was
// lost before all was given up, it is made anew once more.
type registrations struct {
	nc      *nats.Conn
	last    micro.Service
	earlier []micro.Service // not stopped yet

	beside     int    // how many subscriptions the connection has beside those of the endpoints
	leaving    bool   // subscriptions of stopped services are given up
	reconnects uint64 // what the connection had of them when the first of those was stopped
}

// lookAgain is how often it is looked whether what was begun can go on.
const lookAgain = 100 * time.Millisecond

// add has another service answer from now on.
func (r *registrations) add(next micro.Service) {
	if r.last == nil {
		r.beside = r.nc.NumSubscriptions() - len(next.Info().Endpoints)
	} else {
		r.earlier = append(r.earlier, r.last)
	}
	r.last = next
}

// pending reports whether settle has to be called again.
func (r *registrations) pending() bool { return r.leaving || len(r.earlier) > 0 }

// settle does what can be done now to have the server forget the earlier services. What they have taken, they answer.
func (r *registrations) settle(logger klog.Logger) {
	reconnects := r.nc.Stats().Reconnects // in this order: what comes after it counts
	if !r.pending() || !r.nc.IsConnected() {
		return
	}
	if len(r.earlier) > 0 && !r.leaving {
		r.leaving, r.reconnects = true, reconnects
	}
	for _, svc := range r.earlier {
		if err := svc.Stop(); err != nil && !r.nc.IsClosed() {
			logger.Error(err, "The service cannot give up its earlier subscriptions")
		}
	}
	r.earlier = nil
	if r.nc.NumSubscriptions() > r.beside+len(r.last.Info().Endpoints) {
		return // some are still answering
	}
	if now := r.nc.Stats().Reconnects; now != r.reconnects {
		logger.Info("The connection was lost while the service gave up subscriptions; it is made anew, so that the " +
			"server forgets them")
		if err := r.nc.ForceReconnect(); err != nil && !r.nc.IsClosed() {
			logger.Error(err, "The connection cannot be made anew, so some requests may not be answered")
		}
	}
	r.leaving = false
}
