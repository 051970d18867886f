package controllerruntime_test

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

type (
	none = *entity.None
	p    = *entity.Object[struct{ P int }, struct{}]
	s1   = *entity.Object[struct{ S1 int }, struct{}]
	s2   = *entity.Object[struct{ S2 int }, struct{}]
	s3   = *entity.Object[struct{ S3 int }, struct{}]
	s4   = *entity.Object[struct{ S4 int }, struct{}]
	t1   = *entity.Object[struct{ T1 int }, struct{}]
	t2   = *entity.Object[struct{ T2 int }, struct{}]
	t3   = *entity.Object[struct{ T3 int }, struct{}]
	t4   = *entity.Object[struct{ T4 int }, struct{}]
)

// The signatures of the Kumori API, each type parameter a type of its own.
var _ func(
	name string, kind string,
	kubeClientset kubernetes.Interface,
	primaryNatsClient entity.IEntityClient[p],
	secondarySharedInformers []cache.SharedIndexInformer,
	terciarySharedInformers []cache.SharedIndexInformer,
	secondaryNatsClient1 entity.IEntityClient[s1],
	secondaryNatsClient2 entity.IEntityClient[s2],
	secondaryNatsClient3 entity.IEntityClient[s3],
	secondaryNatsClient4 entity.IEntityClient[s4],
	terciaryNatsClient1 entity.IEntityClient[t1],
	terciaryNatsClient2 entity.IEntityClient[t2],
	terciaryNatsClient3 entity.IEntityClient[t3],
	terciaryNatsClient4 entity.IEntityClient[t4],
	secondaryExternalClients []external.IExternalClient,
	resyncInterval time.Duration,
) *controllerruntime.ControllerRuntime[p, s1, s2, s3, s4, t1, t2, t3, t4] = controllerruntime.NewControllerRuntime[p,
	s1, s2, s3, s4, t1, t2, t3, t4]

var _ interface {
	SetCustomController(customController controllerruntime.IController)
	Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
	EnqueueKey(key string, operation controllerruntime.Operation)
	EnqueueKeyAfter(key string, operation controllerruntime.Operation, delay time.Duration)
	Event(object runtime.Object, eventtype string, reason string, message string)
	DecomposeKubeSecondaryResource(obj any) (secondaryResource metav1.Object, primaryKey string, err error)
	HandleSecondary(obj any)
	GarbageSecondaries()
	Clean()
	Operations(key string) controllerruntime.Operations
	SetOwner(obj metav1.Object, key string)
} = (*controllerruntime.ControllerRuntime[p, s1, none, none, none, t1, none, none, none])(nil)

// IController has these methods and no others.
var (
	_ controllerruntime.IController = (interface {
		Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
		SyncHandler(string) error
		HandleSecondary(obj any)
		GarbageSecondaries()
		Clean()
	})(nil)
	_ interface {
		Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
		SyncHandler(string) error
		HandleSecondary(obj any)
		GarbageSecondaries()
		Clean()
	} = controllerruntime.IController(nil)
)

// onlySyncs is the least a custom controller must be.
type onlySyncs struct {
	*controllerruntime.ControllerRuntime[p, none, none, none, none, none, none, none, none]
}

func (onlySyncs) SyncHandler(string) error { return nil }

var _ controllerruntime.IController = onlySyncs{}

func TestKumoriConstantsAreThoseOfTheKumoriControllerruntime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		operations := []controllerruntime.Operation{
			controllerruntime.OperationPut, controllerruntime.OperationDelete,
			controllerruntime.OperationPurge, controllerruntime.OperationSecondary,
		}
		for i, op := range operations {
			if uint8(op) != uint8(i) {
				t.Errorf("%s is %d, want %d", op, op, i)
			}
		}
		for _, c := range [][2]string{
			{controllerruntime.ReasonResourceSynced, "Synced"},
			{controllerruntime.ReasonErrResourceExists, "ErrResourceExists"},
			{controllerruntime.MessageErrResourceExists,
				"Resource %q already exists and is not managed by this controller"},
			{controllerruntime.MessageResourceSyncedCreated, "%q synced successfully (created)"},
			{controllerruntime.MessageResourceSyncedUpdated, "%q synced successfully (updated)"},
			{controllerruntime.MessageResourceSyncedDeleted, "%q synced successfully (deleted)"},
			{controllerruntime.OwnerkindLabel, "kumori/ownerkind"},
			{controllerruntime.OwnerKeyLabel, "kumori/ownerkey"},
			{controllerruntime.OwnerkindAnnotation, "kumori/ownerkind"},
			{controllerruntime.OwnerKeyAnnotation, "kumori/ownerkey"},
		} {
			if c[0] != c[1] {
				t.Errorf("got %q, want %q", c[0], c[1])
			}
		}
	})
}
