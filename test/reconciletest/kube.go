package reconciletest

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

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
			for _, obj := range s.All() {
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
		case was.GetUID() != obj.GetUID() || !equality.Semantic.DeepEqual(was, obj):
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
	w.Document, _ = json.Marshal(obj) // it came as JSON
	return w
}
