package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// streamTimeout bounds looking at the stream and creating it.
const streamTimeout = 5 * time.Second

// subjectsOverlap is the server's error code for a stream whose subjects another one has.
const subjectsOverlap = jetstream.ErrorCode(10065)

func (c Config) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        c.Stream,
		Description: "Events about NATS entities: corev1.Event as JSON. Made by github.com/nagi-runtime/nagi/recorder.",
		Subjects:    []string{c.SubjectPrefix + ".>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      c.MaxAge,
		MaxBytes:    c.MaxBytes,
		// With one message per subject, a repeat replaces its former count.
		MaxMsgsPerSubject: 1,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Placement:         c.Placement,
		Compression:       c.Compression,
		AllowDirect:       true,
		// The window for duplicates is the server's choice: it refuses one longer than MaxAge, or than its own limit.
	}
}

// notCreated explains why a server refuses to create the stream.
func (c Config) notCreated(err error) error {
	return kvstream.Asked{
		MaxBytesField: "Config.MaxBytes", ReplicasField: "Config.Replicas", PlacementField: "Config.Placement",
		MaxBytes: c.MaxBytes, Replicas: c.Replicas, Placement: c.Placement, Needs: "that of the events is missing",
	}.Explain(err)
}

// ensureStream creates the stream if it is missing. It never changes an existing one; the error says what does not fit.
func ensureStream(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	stream, err := lookUp(ctx, js, cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		create := api(js, "STREAM.CREATE.%s", cfg.Stream)
		err = denials.Of(js.Conn()).Call(ctx, create, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, cfg.streamConfig())
			return err
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("creating the stream %s for %s.>: %w", cfg.Stream, cfg.SubjectPrefix,
				cfg.notCreated(explain(err, create)))
		}
		stream, err = lookUp(ctx, js, cfg.Stream) // another recorder was faster
	}
	if err != nil {
		return fmt.Errorf("looking up the stream %s: %w", cfg.Stream,
			explain(err, api(js, "STREAM.INFO.%s", cfg.Stream)))
	}
	if wrong := unfit(stream.CachedInfo().Config, cfg); len(wrong) > 0 {
		return fmt.Errorf("the stream %s was not made by this recorder and is used as it is, but %s; "+
			"change it with nats stream edit, or name another Stream", cfg.Stream, strings.Join(wrong, "; "))
	}
	return nil
}

// unfit lists the settings of a stream with which events get lost, pile up, or do not arrive. Age and size are the
// operator's choice, as long as both are bounded.
func unfit(have jetstream.StreamConfig, cfg Config) []string {
	var wrong []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	covered := slices.ContainsFunc(have.Subjects, func(s string) bool {
		parent, all := strings.CutSuffix(s, ">")
		return all && strings.HasPrefix(cfg.SubjectPrefix+".", parent)
	})
	add(!covered,
		"its subjects %q should include %q, else events are not stored", have.Subjects, cfg.SubjectPrefix+".>")
	add(have.MaxMsgsPerSubject != 1,
		"max messages per subject is %d and should be 1, else every repeat of an event is kept", have.MaxMsgsPerSubject)
	add(have.Retention != jetstream.LimitsPolicy,
		"retention is %v and should be limits, else events vanish when they are read", have.Retention)
	add(have.Discard != jetstream.DiscardOld,
		"discard is %v and should be old, else a full stream takes no more events", have.Discard)
	add(have.MaxAge == 0, "max age is unlimited and should be about %v, else events never age out", cfg.MaxAge)
	add(have.MaxBytes <= 0, "max bytes is unlimited and should be about %d", cfg.MaxBytes)
	add(have.NoAck, "acknowledgements are off, so no event counts as published")
	add(have.Sealed, "it is sealed")
	return wrong
}

func lookUp(ctx context.Context, js jetstream.JetStream, name string) (stream jetstream.Stream, err error) {
	err = denials.Of(js.Conn()).Call(ctx, api(js, "STREAM.INFO.%s", name), func(ctx context.Context) (err error) {
		stream, err = js.Stream(ctx, name)
		return err
	})
	return stream, err
}

// api is the subject of a request to the JetStream API.
func api(js jetstream.JetStream, format string, args ...any) string {
	prefix := "$JS.API."
	switch o := js.Options(); {
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	}
	return prefix + fmt.Sprintf(format, args...)
}

// explain adds the remedy to an error. grant is what the user must be allowed to publish to for the request.
func explain(err error, grant string) error {
	var api *jetstream.APIError
	var denied *denials.Error
	switch {
	case errors.As(err, &denied) && denied.Subscription:
		return fmt.Errorf("the server refuses to subscribe to the inbox: %w (grant subscribe on %q)",
			nats.ErrPermissionViolation, denied.Grant)
	case errors.As(err, &denied):
		return fmt.Errorf("the server refuses to publish to %s: %w (grant publish on %q)",
			denied.Subject, nats.ErrPermissionViolation, grant)
	case errors.As(err, &api) && api.ErrorCode == subjectsOverlap:
		return fmt.Errorf("%w (find it with nats stream find --subject, and name it as Stream, "+
			"or choose another SubjectPrefix)", err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w (enable JetStream on the server and for the account)", err)
	}
	return err
}
