package controllerruntime

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reconcileInfo says for whom a reconcile runs.
type reconcileInfo struct {
	engine *engine
	key    string
}

type reconcileInfoKey struct{}

func withReconcile(ctx context.Context, info *reconcileInfo) context.Context {
	return context.WithValue(ctx, reconcileInfoKey{}, info)
}

func reconcileOf(ctx context.Context) (*reconcileInfo, bool) {
	info, ok := ctx.Value(reconcileInfoKey{}).(*reconcileInfo)
	return info, ok
}

// setOwner makes the primary with that key the owner of obj.
func (e *engine) setOwner(obj metav1.Object, key string) {
	entity.SetOwner(obj, e.kind, key, e.instanceID())
}
