package reconciletest

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// FakeClient is a fake client of client-go, such as a dynamic fake.FakeDynamicClient.
type FakeClient interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// GiveIdentities has a fake client of client-go give objects what an API server gives and Nagi goes by: a uid, and
// another resourceVersion with each create, update and patch. Without a uid nothing is deleted, and without a version a
// cache that is behind cannot be told from one that is not. Objects that the fake was made with keep what they have.
func GiveIdentities(client FakeClient) {
	var writes atomic.Int64
	version := func() string { return strconv.FormatInt(firstVersion+writes.Add(1), 10) }
	identify := func(action clienttesting.Action) (handled bool, _ runtime.Object, _ error) {
		obj, err := meta.Accessor(action.(interface{ GetObject() runtime.Object }).GetObject())
		if err == nil && action.GetSubresource() == "" {
			obj.SetResourceVersion(version())
			obj.SetUID(cmp.Or(obj.GetUID(), types.UID("uid-"+obj.GetResourceVersion())))
		}
		return false, nil, nil
	}
	client.PrependReactor("create", "*", identify)
	client.PrependReactor("update", "*", identify)
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (handled bool, _ runtime.Object, _ error) {
		patch, ok := action.(clienttesting.PatchActionImpl)
		var document map[string]any
		if !ok || utiljson.Unmarshal(patch.Patch, &document) != nil || patch.PatchType == types.ApplyPatchType {
			return false, nil, nil
		}
		metadata, _ := document["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			document["metadata"] = metadata
		}
		metadata["resourceVersion"] = version()
		var err error
		if patch.Patch, err = json.Marshal(document); err != nil {
			return true, nil, err
		}
		return clienttesting.ObjectReaction(client.Tracker())(patch)
	})
}

// firstVersion is above what the fake's lists say that they are at.
const firstVersion = 1000

// kubeObject names an object of an informer.
type kubeObject struct {
	informer cache.SharedIndexInformer
	key      string
}

// kubeObjects are what the informers of an engine's Kubernetes sources show. The objects must not be modified.
func kubeObjects(e *engine.Engine) map[kubeObject]metav1.Object {
	shown := map[kubeObject]metav1.Object{}
	for _, s := range e.Sources() {
		if s, ok := s.(*kubesource.Source); ok {
			for obj := range s.All() {
				shown[kubeObject{s.Place().Informer, source.ObjectKey(obj)}] = obj
			}
		}
	}
	return shown
}

// kubeWrites is what differs, by kind and key.
func kubeWrites(before, after map[kubeObject]metav1.Object) (writes []Write) {
	for at, obj := range after {
		was, existed := before[at]
		switch {
		case !existed:
			writes = append(writes, kubeWrite(Created, at.key, obj))
		case was.GetUID() != obj.GetUID() || !reflect.DeepEqual(was, obj) && documentOf(was) != documentOf(obj):
			writes = append(writes, kubeWrite(Updated, at.key, obj))
		}
	}
	for at, was := range before {
		if _, exists := after[at]; !exists {
			w := kubeWrite(Deleted, at.key, was)
			w.Document = nil
			writes = append(writes, w)
		}
	}
	slices.SortFunc(writes, func(a, b Write) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	return writes
}

func kubeWrite(change Change, key string, obj metav1.Object) Write {
	w := Write{Change: change, Key: key, Kind: reflect.Indirect(reflect.ValueOf(obj)).Type().Name()}
	if typed, ok := obj.(runtime.Object); ok {
		w.Kind = cmp.Or(typed.GetObjectKind().GroupVersionKind().Kind, w.Kind)
	}
	w.Document = json.RawMessage(documentOf(obj))
	return w
}

// documentOf is an object as JSON, which it came as.
func documentOf(obj metav1.Object) string {
	data, _ := json.Marshal(obj)
	return string(data)
}
