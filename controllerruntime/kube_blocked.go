package controllerruntime

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// blockedKeys are the primaries that want the name of somebody's object, by that object's key. Their backoff may be long; when
// the name is free they need not wait for its end.
type blockedKeys struct{ keyed[[]string] }

func (b *blockedKeys) add(object, primary string) {
	b.change(object, func(waiting []string, _ bool) []string {
		if slices.Contains(waiting, primary) {
			return waiting
		}
		return append(slices.Clip(waiting), primary)
	})
}

// recordResourceExists records the event on the reconciled primary, and that it waits for the object to go.
func (k *Kube[T]) recordResourceExists(ctx context.Context, exists *ResourceExistsError) {
	r, ok := reconcileOf(ctx)
	if !ok {
		return
	}
	e := r.engine
	e.event(e.regarding(r.req.Key, e.primary.view(r.req.Key)), corev1.EventTypeWarning, ReasonErrResourceExists,
		fmt.Sprintf(MessageErrResourceExists, exists.Key))
	for _, s := range e.sources {
		if s, ok := s.(*kubeSource); ok && s.informer == k.informer {
			s.blocked.add(exists.Key, r.req.Key)
		}
	}
}

// unblock is for an object that is gone, or another's by now.
func (s *kubeSource) unblock(obj metav1.Object) {
	waiting, _ := s.blocked.take(objectKey(obj))
	for _, key := range waiting {
		s.engine.resume(item{key: key})
	}
}

// changedHands tells whether somebody else owns or controls an object now, or nobody.
func changedHands(before, after metav1.Object) bool {
	if ownerNamedBy(before) != ownerNamedBy(after) || labelOwner(before) != labelOwner(after) {
		return true
	}
	was, is := metav1.GetControllerOfNoCopy(before), metav1.GetControllerOfNoCopy(after)
	return (was == nil) != (is == nil) || was != nil && was.UID != is.UID
}
