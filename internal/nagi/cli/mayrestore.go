package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/backup"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go"
)

// mayRestore refuses a restore while a controller works, or a stream exists.
func (s *session) mayRestore(ctx context.Context, m *backup.Manifest, stopped bool) error {
	for _, name := range m.Controllers {
		if stopped {
			break
		}
		if err := s.isStopped(ctx, name); err != nil {
			return err
		}
	}
	for _, one := range m.Streams {
		if one.Holds != backup.Records {
			continue
		}
		if holder := s.leaseHolder(ctx, one.Bucket); holder != "" {
			return withCode(CodeRefused, fmt.Errorf("nothing is restored: %s holds the lease in bucket %s: stop "+
				"all replicas of its controller first", holder, printable.Quote(one.Bucket)))
		}
	}
	exist, err := backup.Existing(ctx, s.js, m)
	if err != nil {
		return err
	}
	if len(exist) == 0 {
		return nil
	}
	says := "nothing is restored, since a restore writes over nothing, and these streams exist: " +
		strings.Join(exist, ", ") + ". Keep what there is now, and then remove it:\n"
	for _, name := range exist {
		says += fmt.Sprintf("  nats backup stream %s now/%s\n", name, name)
	}
	for _, name := range exist {
		says += fmt.Sprintf("  nats stream rm -f %s\n", name)
	}
	return withCode(CodeRefused, errors.New(strings.TrimSuffix(says, "\n")))
}

// isStopped refuses where a process of a controller is there.
func (s *session) isStopped(ctx context.Context, name string) error {
	var about service.About
	err := s.controller(name).Do(ctx, ask.Read, "about", "", nil, &about)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("controller %s answers: stop all its replicas", printable.Quote(name))
	} else {
		err = fmt.Errorf("it is not known whether controller %s runs: %w: stop all its replicas; --stopped says that "+
			"you did", printable.Quote(name), err)
	}
	return withCode(CodeRefused, fmt.Errorf("nothing is restored: %w", err))
}

// leaseHolder is who holds the lease in a status bucket and has renewed it lately; "" if there is none, or no bucket.
func (s *session) leaseHolder(ctx context.Context, bucket string) string {
	ctx, cancel := s.within(ctx)
	defer cancel()
	kv, err := s.js.KeyValue(ctx, bucket)
	if err != nil {
		return ""
	}
	entry, err := kv.Get(ctx, record.KeyLease)
	if err != nil {
		return ""
	}
	var lease struct {
		Holder  string `json:"holderIdentity"`
		Seconds int    `json:"leaseDurationSeconds"`
	}
	renewed := time.Since(entry.Created())
	if json.Unmarshal(entry.Value(), &lease) != nil || lease.Holder == "" ||
		renewed > time.Duration(lease.Seconds)*time.Second {
		return ""
	}
	return fmt.Sprintf("%s, which renewed it %s ago,", printable.Quote(lease.Holder), out.Age(renewed))
}

// engage puts the brake on, before a controller starts.
func (s *session) engage(ctx context.Context, bucket string, m *backup.Manifest) error {
	state, err := json.Marshal(brake.State{
		Engaged: true, Since: time.Now().UTC(),
		Reason: "restored from the backup of " + m.Made.Format(time.RFC3339),
	})
	if err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	kv, err := s.js.KeyValue(ctx, bucket)
	if err == nil {
		_, err = kv.Put(ctx, record.KeyBrake, state)
	}
	if err != nil {
		return fmt.Errorf("all is restored, but the brake is not on: %w: start no controller before it is\n"+
			"  nats kv put %s %s '{\"engaged\":true,\"reason\":\"restored from a backup\"}'", err, bucket,
			record.KeyBrake)
	}
	return nil
}
