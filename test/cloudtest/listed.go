package cloudtest

import (
	"context"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/external"
)

// Listed is a client whose list the test gives.
type Listed struct {
	Resources atomic.Pointer[[]external.Resource]
	Fails     atomic.Pointer[error]
	Lists     atomic.Int64
	Deleted   chan string
}

// NewListed returns a client whose list has the resources. What it deletes, it sends to Deleted.
func NewListed(resources ...external.Resource) *Listed {
	l := &Listed{Deleted: make(chan string, 100)}
	l.Resources.Store(&resources)
	return l
}

// Kind implements external.IExternalClient.
func (*Listed) Kind() string { return "Thing" }

// List implements external.IExternalClient.
func (l *Listed) List(context.Context) ([]external.Resource, error) {
	l.Lists.Add(1)
	if err := l.Fails.Load(); err != nil {
		return nil, *err
	}
	return *l.Resources.Load(), nil
}

// Delete implements external.IExternalClient.
func (l *Listed) Delete(_ context.Context, id string) error {
	l.Deleted <- id
	kept := []external.Resource{}
	for _, r := range *l.Resources.Load() {
		if r.ID != id {
			kept = append(kept, r)
		}
	}
	l.Resources.Store(&kept)
	return nil
}
