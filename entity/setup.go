package entity

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// openBucket binds to a bucket and checks its settings, which it never changes. It creates a missing bucket unless
// cfg.BindOnly. The warnings are about settings that work, but not as well as they could.
func openBucket(
	ctx context.Context, js jetstream.JetStream, b *bucket, cfg Config,
) (settings jetstream.StreamConfig, warnings []string, err error) {
	if err := b.checkServer(ctx); err != nil {
		return settings, nil, fmt.Errorf("opening bucket %q for kind %s: %w", b.name, cfg.Kind, err)
	}
	info, err := b.info(ctx, "")
	if api, ok := errors.AsType[*apiError](err); ok && api.ErrorCode == codeStreamNotFound && !cfg.BindOnly {
		err = b.denials.Call(ctx, b.apiPrefix+"STREAM.CREATE."+b.stream, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, bucketSettings(cfg, b.name))
			return err
		})
		if denied, ok := errors.AsType[*denials.Error](err); ok {
			err = newForbidden("", "", denied)
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return settings, nil, fmt.Errorf("creating bucket %q for kind %s: %w", b.name, cfg.Kind,
				cfg.notCreated(b.name, err))
		}
		if err = b.checkServer(ctx); err == nil {
			info, err = b.info(ctx, "")
		}
	}
	if api, ok := errors.AsType[*apiError](err); ok && api.ErrorCode == codeStreamNotFound && b.name != cfg.Bucket {
		err = fmt.Errorf("%w (it is the status bucket: Config.StatusBucket names another, and %q none)",
			err, NoStatusBucket)
	}
	if err != nil {
		return settings, nil, fmt.Errorf("opening bucket %q for kind %s: %w", b.name, cfg.Kind, err)
	}
	problems, warnings := settingsSay(info.Config, cfg, b.name, b.nc.ConnectedServerVersion())
	b.accepted.accept(warnings)
	if warning := cfg.differing(info.Config, b.name); warning != "" {
		warnings = append(warnings, warning)
	}
	if len(problems) > 0 {
		return settings, nil, fmt.Errorf("bucket %q of kind %s is not safe to use:\n  %s",
			b.name, cfg.Kind, strings.Join(problems, "\n  "))
	}
	if err := b.locate(ctx, info.Config); err != nil {
		return settings, nil, fmt.Errorf("opening bucket %q for kind %s: %w", b.name, cfg.Kind, err)
	}
	if info.Config.AllowMsgTTL {
		b.markerTTL.Store(int64(cfg.TombstoneTTL / time.Second))
	}
	b.rollups.Store(info.Config.AllowRollup)
	return info.Config, warnings, nil
}

// settingsSay says what is wrong with the settings of a bucket, as checkBucket does, for what the client is to do with
// it.
func settingsSay(s jetstream.StreamConfig, cfg Config, name, connected string) (problems, warnings []string) {
	problems, warnings = checkBucket(s, cfg, name, connected)
	if age := s.MaxAge; age > 0 && name == cfg.Bucket && !cfg.DocumentsExpire {
		warnings = append(warnings, fmt.Sprintf("bucket %q removes documents that are older than %v: "+
			"set Config.DocumentsExpire if that is meant, or take the limit off (nats stream edit KV_%s --max-age=-1)",
			name, age, name))
	}
	if warning := rollupWarning(s, cfg, name); warning != "" {
		warnings = append(warnings, warning)
	}
	return problems, warnings
}

// rollupWarning says what a rollup can do to a bucket whose keys belong to several namespaces, and how to deny it; ""
// if there is nothing to say.
func rollupWarning(s jetstream.StreamConfig, cfg Config, name string) string {
	ofDocuments := name == cfg.Bucket
	if !s.AllowRollup || !cfg.Namespaced || ofDocuments && cfg.AllowRollup || s.Mirror != nil {
		return ""
	}
	flags, otherwise := " --no-allow-rollup", ""
	if s.SubjectDeleteMarkerTTL > 0 { // else the server allows rollups again
		flags += " --subject-del-markers-ttl=0s"
	}
	if s.MaxAge > 0 { // which needs the markers
		flags += " --max-age=-1"
	}
	if ofDocuments {
		otherwise = ", or set Config.AllowRollup if they are meant"
	}
	return fmt.Sprintf("bucket %q allows rollups: who may write one key of it, in any namespace, removes all keys "+
		"of all namespaces with one message (Nats-Rollup: all); deny them (nats stream edit KV_%s%s)%s",
		name, name, flags, otherwise)
}

// checkServer fails if the server that holds the bucket is too old. An old server that the client is connected to
// proves nothing: it may be a leaf node, or one of a cluster that is being upgraded. So the server that answers for the
// stream is asked for the next message of a subject. One that does not know such a request refuses it. A cluster
// answers only if the stream exists.
func (b *bucket) checkServer(ctx context.Context) error {
	connected := b.nc.ConnectedServerVersion()
	if !kvstream.VersionBefore(connected, kvstream.OldestServer) {
		return nil
	}
	request, err := stdjson.Marshal(map[string]string{"next_by_subj": b.place.Load().prefix + ">"})
	if err != nil {
		return err
	}
	_, err = ask[messageAnswer](ctx, b, "STREAM.MSG.GET."+b.stream, request)
	api, answered := errors.AsType[*apiError](err)
	switch {
	case answered && api.ErrorCode == codeBadRequest:
		return kvstream.TooOld(connected)
	case err == nil, answered, errors.Is(err, nats.ErrPermissionViolation):
		return nil // whatever else is wrong will show
	}
	return fmt.Errorf("nats-server %s or newer is needed, and the connected server is %s: %w",
		kvstream.OldestServer, connected, err)
}

// documentLimit returns the size of the largest document that is written to a bucket.
func documentLimit(cfg Config, settings jetstream.StreamConfig, maxPayload int64, name string) (int, error) {
	limit, err := messageLimit(cfg, settings, maxPayload, name)
	if err == nil && cfg.MaxDocumentBytes == 0 {
		limit = min(limit, DefaultMaxDocumentBytes) // or the writer could not read it
	}
	return limit, err
}

// roomIn returns the size of the largest value that fits a message of the bucket, whatever the configuration allows.
func roomIn(cfg Config, settings jetstream.StreamConfig, maxPayload int64, name string) (int, error) {
	cfg.MaxDocumentBytes = 0
	return messageLimit(cfg, settings, maxPayload, name)
}

// messageLimit returns the size of the largest value that fits a message of the bucket, and that the configuration
// allows.
func messageLimit(cfg Config, settings jetstream.StreamConfig, maxPayload int64, name string) (int, error) {
	limit := int(maxPayload) - headroom
	from := fmt.Sprintf("max_payload of the server is %d", maxPayload)
	if size := int(settings.MaxMsgSize); size > 0 && size-headroom < limit {
		limit, from = size-headroom, fmt.Sprintf("max_msg_size of bucket %q is %d", name, size)
	}
	if limit < headroom {
		return 0, fmt.Errorf("%s, which leaves no room for documents beside the headers: raise it", from)
	}
	if cfg.MaxDocumentBytes == 0 {
		return limit, nil
	}
	if cfg.MaxDocumentBytes > limit {
		return 0, fmt.Errorf("Config.MaxDocumentBytes of kind %s is %d, but %s, which leaves %d for a document: "+
			"raise that, or lower MaxDocumentBytes", cfg.Kind, cfg.MaxDocumentBytes, from, limit)
	}
	return cfg.MaxDocumentBytes, nil
}
