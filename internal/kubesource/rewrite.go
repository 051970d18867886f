package kubesource

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// errNoMarker says that a source has no means to write.
var errNoMarker = errors.New("its source cannot write: use a handle of package kube, or kube.Deleter by WithDeleter")

// Rewrites implements source.Owned.
func (s *Source) Rewrites() bool {
	_, ok := s.config.Deleter.(Marker)
	return ok
}

// Rewrite implements source.Owned for a change of labels and annotations; no other one is written.
func (s *Source) Rewrite(ctx context.Context, obj metav1.Object, change func(metav1.Object) error) error {
	d, ok := s.config.Deleter.(Marker)
	if !ok {
		return errNoMarker
	}
	now := obj
	if reader, ok := s.config.Deleter.(LiveReader); ok {
		live, err := reader.Live(ctx, obj)
		if err != nil {
			return s.health.errors.NoteUnanswered(err)
		}
		if live == nil || live.GetUID() != obj.GetUID() {
			return nil // it is gone
		}
		now = live
	}
	copied, ok := now.(runtime.Object).DeepCopyObject().(metav1.Object)
	if !ok {
		return errors.New("its copy is no object")
	}
	if err := change(copied); err != nil {
		return err
	}
	err := d.Mark(ctx, now, changed(now.GetLabels(), copied.GetLabels()),
		changed(now.GetAnnotations(), copied.GetAnnotations()))
	return s.health.errors.NoteUnanswered(err)
}

// changed are the entries of after that before has not, and nil for those that after has not: another owner's revision
// or proof must not stay.
func changed(before, after map[string]string) map[string]*string {
	out := map[string]*string{}
	for name, value := range after {
		if held, ok := before[name]; !ok || held != value {
			out[name] = &value
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out[name] = nil
		}
	}
	return out
}
