package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// replica is a process that answers for controllers.
type replica struct {
	ID      string `json:"id"`
	Version string `json:"version"` // of its service

	subjects []string
}

const (
	// Who asks all services does not know how many answer: it waits until none has for a while.
	longestAnswers = 2 * time.Second
	quietAnswers   = 300 * time.Millisecond
	allServices    = "$SRV.INFO"
)

// replicas are the processes with a service; nil if they could not be asked.
func (s *session) replicas(ctx context.Context) []replica {
	all, _ := s.askReplicas(ctx)
	return all
}

func (s *session) askReplicas(ctx context.Context) ([]replica, error) {
	ctx, cancel := context.WithTimeout(ctx, longestAnswers)
	defer cancel()
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	asked := denials.Of(s.nc).Publish(allServices, func(error) { cancel() })
	defer asked.Stop()
	if err := s.nc.PublishRequest(allServices, inbox, nil); err != nil {
		return nil, err
	}
	all := []replica{}
	for {
		quiet, stop := context.WithTimeout(ctx, quietAnswers+time.Duration(len(all))*time.Millisecond)
		msg, err := sub.NextMsgWithContext(quiet)
		stop()
		if err != nil {
			if denied := asked.Err(); denied != nil {
				return nil, denied
			}
			slices.SortFunc(all, func(a, b replica) int { return strings.Compare(a.ID, b.ID) })
			return all, nil
		}
		if r, ok := replicaOf(msg); ok {
			all = append(all, r)
		}
	}
}

func replicaOf(msg *nats.Msg) (replica, bool) {
	var info micro.Info
	if json.Unmarshal(msg.Data, &info) != nil || info.ID == "" {
		return replica{}, false
	}
	r := replica{ID: info.ID, Version: info.Version}
	for _, e := range info.Endpoints {
		r.subjects = append(r.subjects, e.Subject)
	}
	return r, true
}

// replicasOf are those that answer for a controller.
func replicasOf(all []replica, c asked) []replica {
	if all == nil {
		return nil
	}
	of := []replica{}
	for _, r := range all {
		if slices.Contains(r.subjects, c.Subject("read", "stats", "")) {
			of = append(of, r)
		}
	}
	return of
}
