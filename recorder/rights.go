package recorder

import (
	"context"
	"errors"
	"strings"
)

// SetUp makes the stream of a recorder that is BindOnly, or that does not run yet, if it is missing. It never changes
// one that exists; the error says what does not fit.
func SetUp(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if cfg.JetStream == nil {
		return errors.New("recorder: SetUp needs Config.JetStream")
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	return ensureStream(ctx, cfg.JetStream, cfg)
}

// SetUpSubjects are what SetUp publishes to, and a recorder that is not BindOnly.
func (c Config) SetUpSubjects() []string {
	return c.withDefaults().api("STREAM.INFO.%s", "STREAM.CREATE.%s")
}

// RecordSubjects are what a recorder publishes to: its events and, unless it is BindOnly, a look at the stream.
func (c Config) RecordSubjects() []string {
	c = c.withDefaults()
	subjects := []string{c.SubjectPrefix + ".>"}
	if !c.BindOnly {
		subjects = append(subjects, c.api("STREAM.INFO.%s")...)
	}
	return subjects
}

// ListSubjects are what is published to by those who list events, as nats stream view does.
func (c Config) ListSubjects() []string {
	return c.withDefaults().api("STREAM.INFO.%s", "STREAM.MSG.GET.%s", "CONSUMER.CREATE.%s.>", "CONSUMER.MSG.NEXT.%s.*",
		"CONSUMER.INFO.%s.*", "CONSUMER.DELETE.%s.*")
}

// api are subjects of the JetStream API about the stream.
func (c Config) api(formats ...string) []string {
	for i, format := range formats {
		if c.JetStream == nil {
			formats[i] = "$JS.API." + strings.ReplaceAll(format, "%s", c.Stream)
			continue
		}
		formats[i] = api(c.JetStream, format, c.Stream)
	}
	return formats
}
