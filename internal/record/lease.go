package record

import "context"

// LeaseStore keeps the lease in a reserved key of the status bucket. It is a lease.Store.
type LeaseStore struct{ Records Store }

// Load implements lease.Store.
func (s LeaseStore) Load(ctx context.Context) (value []byte, revision uint64, err error) {
	return s.Records.GetReserved(ctx, KeyLease)
}

// Store implements lease.Store.
func (s LeaseStore) Store(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	return s.Records.PutReserved(ctx, KeyLease, value, revision)
}
