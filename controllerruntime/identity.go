package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"strings"
	"time"
)

// Reserved keys of the status bucket, beside the records.
const (
	reservedController = entity.ReservedPrefix + ".controller" // whose status bucket it is
	reservedInstance   = entity.ReservedPrefix + ".instance"   // id of this installation
	reservedLease      = entity.ReservedPrefix + ".lease"      // which replica works
	reservedStream     = entity.ReservedPrefix + ".stream"     // which stream the primaries were last seen in
	reservedBrake      = entity.ReservedPrefix + ".brake"      // that the brake is engaged, and why
	reservedRelease    = entity.ReservedPrefix + ".release"    // an operator's put here releases the brake
)

func (e *engine) reserved(key string) bool { return strings.HasPrefix(key, entity.ReservedPrefix) }

// claim makes sure that the status bucket is this controller's, and learns the id of this installation.
func (e *engine) claim(ctx context.Context) error {
	name, err := e.once(ctx, reservedController, e.name)
	if err != nil {
		return fmt.Errorf("controller %q: %w", e.name, err)
	}
	if name != e.name {
		return fmt.Errorf("controller %q: the status bucket %s belongs to controller %q; one status bucket serves one controller: "+
			"give the client of this one another StatusBucket", e.name, e.statusBucket, name)
	}
	instance := e.instanceID()
	if instance == "" {
		instance = nuid.Next()
	}
	if instance, err = e.once(ctx, reservedInstance, instance); err != nil {
		return fmt.Errorf("controller %q: %w", e.name, err)
	}
	e.instance.Store(&instance)
	return nil
}

// keepClaim claims the status bucket again when somebody removed what claims it, or the whole bucket: the id of this
// installation must not change while it has secondaries.
func (e *engine) keepClaim(ctx context.Context) {
	if e.records == nil {
		return
	}
	source := "claim (bucket " + e.statusBucket + ")"
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.unclaimed:
		}
		err := e.claim(ctx)
		if ctx.Err() != nil {
			e.noteUnclaimed() // for the next term
			return
		}
		e.health.Set(ctx, source, err)
	}
}

func (e *engine) noteUnclaimed() {
	select {
	case e.unclaimed <- struct{}{}:
	default:
	}
}

// once returns what a reserved key holds, and writes value there if it holds nothing. Others may do so at the same time.
func (e *engine) once(ctx context.Context, key, value string) (string, error) {
	var held string
	err := e.persist(ctx, "read or create", key, func(ctx context.Context) error {
		found, revision, err := e.records.GetReserved(ctx, key)
		if err == nil && len(found) > 0 {
			held = string(found)
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if _, err := e.records.PutReserved(ctx, key, []byte(value), revision); err != nil {
			return err
		}
		held = value
		return nil
	})
	return held, err
}

// persist tries f until it succeeds, with backoff: while NATS is away nothing can be decided, and nothing must be lost.
func (e *engine) persist(ctx context.Context, doing, key string, f func(context.Context) error) error {
	delay := 20 * time.Millisecond
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s in status bucket %s: %w (last error: %w)", doing, key, e.statusBucket, context.Cause(ctx), err)
		}
		klog.FromContext(ctx).V(2).Info("Will try again", "doing", doing, "key", key, "bucket", e.statusBucket, "err", err)
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		delay = min(2*delay, 2*time.Second)
	}
}

// replace puts value into a reserved key whatever it holds.
func (e *engine) replace(ctx context.Context, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	err = e.persist(ctx, "write", key, func(ctx context.Context) error {
		_, revision, err := e.records.GetReserved(ctx, key)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = e.records.PutReserved(ctx, key, data, revision)
		return err
	})
	if err == nil {
		e.reservedHealth(ctx, key, nil)
	}
	return err
}

// remove deletes a reserved key; one that is absent is fine.
func (e *engine) remove(ctx context.Context, key string) error {
	err := e.persist(ctx, "delete", key, func(ctx context.Context) error {
		_, revision, err := e.records.GetReserved(ctx, key)
		if err == nil {
			err = e.records.DeleteReserved(ctx, key, revision)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err == nil {
		e.reservedHealth(ctx, key, nil)
	}
	return err
}

// load reads a reserved key into value; found is false if it holds nothing. What is there and does not decode is reported
// until it is written or removed, and is errUnreadable: only the caller knows which way is the safe one.
func (e *engine) load(ctx context.Context, key string, value any) (found bool, err error) {
	var data []byte
	err = e.persist(ctx, "read", key, func(ctx context.Context) (err error) {
		data, _, err = e.records.GetReserved(ctx, key)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil || len(data) == 0 {
		return false, err
	}
	if err := json.Unmarshal(data, value); err != nil {
		err = fmt.Errorf("%w: %s in status bucket %s does not decode; mend or delete the key: %w", errUnreadable, key, e.statusBucket, err)
		e.reservedHealth(ctx, key, err)
		return true, err
	}
	e.reservedHealth(ctx, key, nil)
	return true, nil
}

// kept is what an earlier run left of the brake. What cannot be read counts as engaged: it may have been.
func (b *brake) kept(ctx context.Context) (keptBrake, error) {
	var kept keptBrake
	_, err := b.engine.load(ctx, reservedBrake, &kept)
	if errors.Is(err, errUnreadable) {
		return keptBrake{BrakeState: BrakeState{Engaged: true, Since: time.Now(), Reason: err.Error()}}, nil
	}
	return kept, err
}

// errUnreadable is for a reserved key that somebody wrote who does not know what belongs there.
var errUnreadable = errors.New("unreadable")

func (e *engine) reservedHealth(ctx context.Context, key string, err error) {
	e.health.Set(ctx, key+" (bucket "+e.statusBucket+")", err)
}

// present tells whether a reserved key holds anything.
func (e *engine) present(ctx context.Context, key string) (bool, error) {
	var found bool
	err := e.persist(ctx, "read", key, func(ctx context.Context) error {
		_, _, err := e.records.GetReserved(ctx, key)
		found = err == nil
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return found, err
}

// anchoredRecords are the records in the cache under which a teardown is owed once the document is gone.
func (e *engine) anchoredRecords() map[string]*entity.Record {
	records := map[string]*entity.Record{}
	for key, record := range e.records.All() {
		if isAnchor(record) {
			records[key] = record
		}
	}
	return records
}

// streamIdentity tells one stream from another under the same name. Created survives a restore from a backup, so the
// highest sequence seen counts too.
type streamIdentity struct {
	Created string `json:"created"`
	Highest uint64 `json:"highestSequence"`
	Changes uint64 `json:"-"` // how often the informer noticed another stream since it started
}

// highestKnown also counts what the records tell: they are written more often than the reserved key.
func highestKnown(known streamIdentity, records map[string]*entity.Record) streamIdentity {
	for _, record := range records {
		if record.Stream == known.Created {
			known.Highest = max(known.Highest, record.ObservedRevision, record.DocumentRevision)
		}
	}
	return known
}
