package lease

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// load reads the key. An absent key is the zero version.
func (e *elector) load(ctx context.Context) (version, error) {
	bounded, cancel := context.WithTimeout(ctx, e.Timing.request())
	defer cancel()
	value, revision, err := e.Store.Load(bounded)
	found := version{value: value, revision: revision, at: time.Now()}
	if err == nil {
		if found.record, found.garbled = decode(value); found.garbled != nil {
			found.garbled = fmt.Errorf("the key of the lease %s holds no lease: %w. "+
				"If no replica leads after a while, stop who writes there and delete the key", e.Name, found.garbled)
		}
	}
	e.known(revision, found.record)
	if apierrors.IsNotFound(err) {
		return version{marker: revision, at: found.at}, nil
	}
	return found, err
}

func (e *elector) store(ctx context.Context, r record, revision uint64) (version, error) {
	value, err := encode(r)
	if err != nil {
		return version{}, fmt.Errorf("encode the lease %s: %w", e.Name, err)
	}
	bounded, cancel := context.WithTimeout(ctx, e.Timing.request())
	defer cancel()
	sent := time.Now()
	revision, err = e.Store.Store(bounded, value, revision)
	e.known(revision, r)
	return version{record: r, revision: revision, at: sent}, err
}

// known notes that the key, or its delete marker, is at a revision.
func (e *elector) known(revision uint64, r record) {
	if revision != 0 {
		if r.HolderIdentity != "" {
			e.highest, e.hides = revision, 0
		}
		e.leaveAlone = max(e.leaveAlone, e.Timing.Duration, r.duration())
		if e.Holder != nil {
			e.Holder(r.HolderIdentity)
		}
	}
}
