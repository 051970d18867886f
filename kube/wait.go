package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Condition says whether an object is as somebody waits for it; see Handle.WaitFor. obj is a copy, and nil where there
// is no such object. And, Or and Not combine conditions.
type Condition[T Object] func(obj T) bool

// Exists holds of what is there.
func Exists[T Object]() Condition[T] { return func(obj T) bool { return !isNil(obj) } }

// Deleted holds when the object with that uid is gone, also where another one has its name by then. An empty uid means
// that no object has the name.
func Deleted[T Object](uid types.UID) Condition[T] {
	return func(obj T) bool { return isNil(obj) || uid != "" && obj.GetUID() != uid }
}

// HasCondition holds of an object whose status has a condition of this type with this status, such as "Available" and
// metav1.ConditionTrue of a Deployment. As with kubectl wait it must be about the latest spec: a condition or a status
// with an observedGeneration below the object's generation does not count.
func HasCondition[T Object](conditionType string, status metav1.ConditionStatus) Condition[T] {
	return func(obj T) bool {
		for _, c := range conditionsOf(obj) {
			if c.kind == conditionType && c.status == string(status) && c.current {
				return true
			}
		}
		return false
	}
}

// And holds where each of the conditions does.
func And[T Object](conditions ...Condition[T]) Condition[T] {
	return func(obj T) bool {
		for _, c := range conditions {
			if !c(obj) {
				return false
			}
		}
		return true
	}
}

// Or holds where one of the conditions does.
func Or[T Object](conditions ...Condition[T]) Condition[T] {
	return func(obj T) bool {
		for _, c := range conditions {
			if c(obj) {
				return true
			}
		}
		return false
	}
}

// Not holds where the condition does not.
func Not[T Object](condition Condition[T]) Condition[T] {
	return func(obj T) bool { return !condition(obj) }
}

// WaitFor blocks until the condition holds of the object with that key, "name" or "namespace/name", and returns a copy
// of it; nil if there is none. It sends no request: it reads what Get does, and looks again with each event of the
// informer, which has to run. The error at the end of the context says how the object was then. A condition that panics
// ends the wait with an error.
//
// A reconciler does not wait, as that holds a worker: it returns, and the object's next event makes the key due again.
// WaitFor is for tests, jobs and command lines.
func (k *Handle[T]) WaitFor(ctx context.Context, key string, condition Condition[T]) (T, error) {
	var none T
	if condition == nil {
		return none, errors.New("kube: WaitFor needs a condition, such as Exists or HasCondition")
	}
	changed := make(chan struct{}, 1)
	wake := func(item any) {
		if obj, ok := source.MetaObject(item); ok && source.ObjectKey(obj) == key {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
	handle, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(_, item any) { wake(item) }, DeleteFunc: wake,
	})
	if err != nil {
		return none, fmt.Errorf("wait for %s %s: %w", kubeapi.ResourceName(k.resource), printable.Quote(key), err)
	}
	defer func() { _ = k.informer.RemoveEventHandler(handle) }()
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return none, k.gaveUp(ctx, key, cmp.Or(k.synced(), errors.New("the cache has only just synced")))
	}
	for {
		obj, err := k.Get(key)
		if err != nil && !apierrors.IsNotFound(err) {
			return none, err
		}
		holds := false
		if err := guard.Call(func() error { holds = condition(obj); return nil }); err != nil {
			return none, fmt.Errorf("wait for %s %s: %w", kubeapi.ResourceName(k.resource), printable.Quote(key), err)
		}
		if holds {
			return obj, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return none, k.gaveUp(ctx, key, errors.New(howItIs(obj)))
		}
	}
}

// gaveUp is the error of a wait whose context has ended.
func (k *Handle[T]) gaveUp(ctx context.Context, key string, why error) error {
	return fmt.Errorf("wait for %s %s: %w: %w",
		kubeapi.ResourceName(k.resource), printable.Quote(key), context.Cause(ctx), why)
}

// howItIs says what is known of an object that is not as it is waited for.
func howItIs[T Object](obj T) string {
	if isNil(obj) {
		return "the cache has no such object"
	}
	says := []string{"it is at resourceVersion " + printable.Text(obj.GetResourceVersion())}
	for _, c := range conditionsOf(obj) {
		said := printable.Text(c.kind) + " is " + printable.Text(c.status)
		if !c.current {
			said += " of an earlier spec"
		}
		if c.message != "" {
			said += ": " + printable.Text(c.message)
		}
		says = append(says, said)
	}
	return strings.Join(says, "; ")
}

// stated is one of the conditions in a status.
type stated struct {
	kind, status, message string
	current               bool // it is about the latest spec
}

// conditionsOf returns the conditions in an object's status.
func conditionsOf[T Object](obj T) (conditions []stated) {
	if isNil(obj) {
		return nil
	}
	fields, err := mergediff.FieldsOf(obj)
	if err != nil {
		return nil
	}
	observed, found, _ := unstructured.NestedInt64(fields, "status", "observedGeneration")
	current := !found || observed >= obj.GetGeneration()
	all, _, _ := unstructured.NestedSlice(fields, "status", "conditions")
	for _, item := range all {
		c, ok := item.(map[string]any)
		if !ok {
			continue
		}
		s := stated{current: current}
		s.kind, _, _ = unstructured.NestedString(c, "type")
		s.status, _, _ = unstructured.NestedString(c, "status")
		s.message, _, _ = unstructured.NestedString(c, "message")
		if of, found, _ := unstructured.NestedInt64(c, "observedGeneration"); found && of < obj.GetGeneration() {
			s.current = false
		}
		conditions = append(conditions, s)
	}
	return conditions
}

func isNil[T Object](obj T) bool { return guard.IsNil(obj) }
