package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nats.go"
)

// WatchesKeys makes the primaries due whose keys come over a channel, with OperationTertiary. It is for events that
// the program has from elsewhere. name is that of the source in logs and errors. From Run on the channel is read at
// once, also while this replica waits for the lease; before Run and after it, it is not read. A closed channel ends
// the source, and nothing else. A key that no primary can have is logged and forgotten. A key reaches the replica
// alone in which it was sent: it is of no use in one that does not lead, so where there are several take
// WatchesSubject or a bucket.
func WatchesKeys(name string, keys <-chan string) Option {
	return func(o *engine.Options) error {
		if name == "" || keys == nil {
			return errors.New("WatchesKeys: a name and a channel are needed")
		}
		if err := listensOnce(o, "WatchesKeys", name); err != nil {
			return err
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			return source.NewKeys(name, keys, e), nil
		})
		return nil
	}
}

// WatchesSubject makes the primaries due that keys returns for a message on a subject of NATS, which may have
// wildcards, with OperationTertiary. If keys fails, it is called again, with backoff, for the same message. Nothing
// is reconciled before the server has taken the subscription or has refused it. One that it refuses shows in
// Stats().Degraded, and is tried again each second; the controller works meanwhile. conn may be another connection
// than that of the primary, also to another account; [Controller.Permissions] has the right to hear the subject where
// it is the primary's.
//
// A message on a subject is sent once. It is lost while the subscription is refused or the connection is away, and
// where messages come faster than keys returns. After each of them all primaries are due once, after all else;
// messages that come too fast have to pause for that. For what must not cost that, use a bucket and Watches.
func WatchesSubject(
	conn *nats.Conn, subject string, keys func(context.Context, *nats.Msg) ([]string, error),
) Option {
	return func(o *engine.Options) error {
		switch {
		case conn == nil || keys == nil:
			return errors.New("WatchesSubject: a connection and a function that returns keys are needed")
		case !source.IsSubject(subject):
			return fmt.Errorf("WatchesSubject: %q is no subject", subject)
		}
		if err := listensOnce(o, "WatchesSubject", subject); err != nil {
			return err
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			return e.SubjectSource(source.SubjectConfig{Conn: conn, Subject: subject, Keys: keys}), nil
		})
		return nil
	}
}

// listensOnce refuses a second source of that name: each has a name of its own in errors and Stats.
func listensOnce(o *engine.Options, option, name string) error {
	if slices.Contains(o.Listens, option+" "+name) {
		return fmt.Errorf("%s(%q) is given twice: have one do the work of both", option, name)
	}
	o.Listens = append(o.Listens, option+" "+name)
	return nil
}
