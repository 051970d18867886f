package source

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// TestCausesCostNothingWhileNobodyWantsThem.
func TestCausesCostNothingWhileNobodyWantsThem(t *testing.T) {
	s := &NATS[*entity.Object[struct{}, struct{}]]{NATSConfig: NATSConfig{Role: "Owns"}}
	obj := &metav1.ObjectMeta{Name: "page", ResourceVersion: "7"}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if s.caused(ctx, obj) != ctx {
			t.Fatal("there is a cause")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// caused is an Enqueuer that notes causes.
type caused struct {
	noticed
	of chan uint64
}

func (c *caused) Caused(_ string, cause *causes.Cause) {
	if cause != nil {
		c.of <- cause.Revision
	}
}

// TestAMapperThatFailedKeepsTheCauseOfItsEvent, until it works.
func TestAMapperThatFailedKeepsTheCauseOfItsEvent(t *testing.T) {
	var seen causes.Seen
	seen.Note("pages", natsinformer.Entry{Key: "page", Revision: 7, Header: nats.Header{"traceparent": {"x"}}})
	due := &caused{of: make(chan uint64, 10)}
	m := NewMappings(due, 1, 1, func() {}, func() {})
	calls := 0
	events := &Events{Source: pages{}, Mappings: m, Keys: func(context.Context, metav1.Object) ([]string, error) {
		if calls++; calls < 3 {
			return nil, errors.New("not now")
		}
		return []string{"home"}, nil
	}}
	ctx := klog.NewContext(t.Context(), logr.Discard())
	m.Start(ctx)
	defer m.Stop()
	obj := &metav1.ObjectMeta{Name: "page", ResourceVersion: "7"}
	events.Created(causes.With(ctx, seen.Of("pages", obj)), obj, false)
	if revision := <-due.of; revision != 7 {
		t.Errorf("revision %d", revision)
	}
}

type pages struct{}

func (pages) String() string { return "Owns Page" }
