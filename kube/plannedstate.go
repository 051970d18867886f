package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// memory is what the handle knows of its own writes. A plan reads it, and adds nothing: nothing of it has happened.
func (k *Handle[T]) memory(ctx context.Context) *kubewrites.Memory {
	if dryrun.Of(ctx) != nil {
		return k.applied.ReadOnly()
	}
	return k.applied
}

// seen is lookup for a write under ctx: in a plan it returns what the plan has made of the object.
func (k *Handle[T]) seen(ctx context.Context, key string) metav1.Object {
	plan := dryrun.Of(ctx)
	if plan == nil {
		return k.lookup(key)
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return k.lookup(key)
	}
	switch o := k.at(namespace).seen(plan, name); {
	case o == nil || o.isHere():
		return k.lookup(key)
	case o.now != nil:
		return o.now
	}
	return nil
}

// plannedAt tells objects apart in a plan.
type plannedAt struct {
	cluster  any
	resource schema.GroupResource
	key      string
}

// plannedObject is what a plan has of an object.
type plannedObject struct {
	here *unstructured.Unstructured // as the server has it; nil if it has none
	now  *unstructured.Unstructured // as it would be by now; nil if it would be gone
}

// isHere reports whether it would be as the server has it, so that the server can answer for it.
func (o *plannedObject) isHere() bool {
	return o.here != nil && o.now != nil && o.is(o.here.GetUID(), o.here.GetResourceVersion())
}

// is reports whether it would have that uid and version; an empty one is any.
func (o *plannedObject) is(uid types.UID, version string) bool {
	return (uid == "" || uid == o.now.GetUID()) && (version == "" || version == o.now.GetResourceVersion())
}

// clusterOf tells clusters apart, as far as a client can: each client is one.
func clusterOf(client dynamic.Interface) any {
	if v := reflect.ValueOf(client); !v.Comparable() {
		return v.Type()
	}
	return client
}

func (p plannable) place(name string) (plannedAt, dryrun.Object) {
	key, cluster := name, clusterOf(p.client)
	if p.namespace != "" {
		key = p.namespace + "/" + name
	}
	return plannedAt{cluster, p.resource.GroupResource(), key}, dryrun.Object{
		System: dryrun.Kubernetes, Kind: kubeapi.ResourceName(p.resource), Key: key, Cluster: cluster,
	}
}

// seen is what a plan has of an object; nil if it has nothing.
func (p plannable) seen(plan *dryrun.Plan, name string) *plannedObject {
	at, _ := p.place(name)
	return seenAt(plan, at)
}

func seenAt(plan *dryrun.Plan, at plannedAt) *plannedObject {
	state, _ := plan.Seen(at)
	o, _ := state.Raw.(*plannedObject)
	return o
}

// wrote notes an object that the server has as here, and that would be as now.
func (p plannable) wrote(plan *dryrun.Plan, name string, here, now *unstructured.Unstructured) {
	at, of := p.place(name)
	after := stateOf(now)
	after.Raw = &plannedObject{here: here, now: now}
	plan.Wrote(at, of, stateOf(here), after)
}

// hold leaves an object there that was deleted, if something holds it: what is written by its name then waits. last is
// as the plan had it, nil if it was as the server has it.
func (p plannable) hold(
	plan *dryrun.Plan, name string, last *unstructured.Unstructured, propagation *metav1.DeletionPropagation,
) {
	at, _ := p.place(name)
	o := seenAt(plan, at)
	if o == nil || o.here == nil {
		return
	}
	if last == nil {
		last = o.here
	}
	background := propagation == nil || *propagation == metav1.DeletePropagationBackground
	if background && len(last.GetFinalizers()) == 0 {
		return
	}
	now, deleted := last.DeepCopy(), metav1.Now()
	now.SetDeletionTimestamp(&deleted)
	now.SetResourceVersion(fmt.Sprint("planned-", plan.Number()))
	plan.Wrote(at, dryrun.Object{}, dryrun.State{}, dryrun.State{Raw: &plannedObject{here: o.here, now: now}})
}

// makesNamespace reports whether the namespace of the objects would be made by the plan.
func (p plannable) makesNamespace(plan *dryrun.Plan) bool {
	o := seenAt(plan, plannedAt{clusterOf(p.client), schema.GroupResource{Resource: "namespaces"}, p.namespace})
	return o != nil && o.now != nil && o.now.GetDeletionTimestamp() == nil
}

// made notes an object as it is sent, of which the server cannot say what it would make.
func (p plannable) made(
	plan *dryrun.Plan, name string, here, sent *unstructured.Unstructured,
) *unstructured.Unstructured {
	obj, id := sent.DeepCopy(), fmt.Sprint("planned-", plan.Number())
	obj.SetName(name)
	obj.SetNamespace(p.namespace)
	obj.SetUID(types.UID(id))
	obj.SetResourceVersion(id)
	p.wrote(plan, name, here, obj)
	return obj.DeepCopy()
}

// madeAgain is made for an object that the plan has deleted: a dry run would meet the one that is still there.
func (p plannable) madeAgain(
	plan *dryrun.Plan, name string, o *plannedObject, sent *unstructured.Unstructured,
) *unstructured.Unstructured {
	if o.here != nil {
		_, of := p.place(name)
		plan.Note("%s %q would be deleted and made again; it is shown as it would be sent, without what the API "+
			"server adds", of.Kind, of.Key)
	}
	return p.made(plan, name, o.here, sent)
}

// sentBy is the object that a patch sends, and what it wants of the metadata of the one that is there.
func sentBy(data []byte) (sent *unstructured.Unstructured, wants metav1.Object) {
	sent = &unstructured.Unstructured{}
	if json.Unmarshal(data, &sent.Object) != nil {
		return nil, &metav1.ObjectMeta{}
	}
	wants = &metav1.ObjectMeta{UID: sent.GetUID(), ResourceVersion: sent.GetResourceVersion()}
	sent.SetResourceVersion("")
	return sent, wants
}

// differs reports whether two states of an object differ in more than the version.
func differs(a, b *unstructured.Unstructured) bool {
	return !reflect.DeepEqual(withoutVersion(a), withoutVersion(b))
}

func withoutVersion(obj *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(obj.Object)
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		fields["metadata"] = metadata
	}
	return fields
}

// stateOf is an object as a plan shows it: the values of a Secret are not shown, nor what kubectl keeps of them.
func stateOf(obj *unstructured.Unstructured) dryrun.State {
	if obj == nil {
		return dryrun.State{}
	}
	state := dryrun.State{Exists: true, JSON: obj.Object, Open: obj.Object, Raw: obj}
	if obj.GetKind() == "Secret" && obj.GroupVersionKind().Group == "" {
		open := obj.DeepCopy()
		delete(open.Object, "data")
		delete(open.Object, "stringData")
		if annotations := open.GetAnnotations(); annotations != nil {
			delete(annotations, lastAppliedByKubectl)
			open.SetAnnotations(annotations)
		}
		state.Open = open.Object
	}
	return state
}

const lastAppliedByKubectl = "kubectl.kubernetes.io/last-applied-configuration"
