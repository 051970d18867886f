// Package contract holds the public names and signatures that other modules compile against.
package contract

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

type (
	thing = entity.Object[struct{}, struct{}]
	none  = entity.None
)

// Package entity.
var (
	_ entity.IEntity = (*thing)(nil)
	_ entity.IEntity = (*none)(nil)
	_ entity.IEntity = (*unstructured.Unstructured)(nil)

	_ = entity.Config{
		Kind: "", Bucket: "", Filter: "", Namespaced: false, Replicas: 1, Storage: jetstream.FileStorage, BindOnly: false, StatusBucket: "-",
	}
	_ func(context.Context, jetstream.JetStream, entity.Config) (*entity.Client[*thing], error) = entity.NewClient[*thing]
	_ entity.IEntityClient[*thing]                                                              = (*entity.Client[*thing])(nil)
	_ interface {
		Kind() string
		Get(ctx context.Context, key string) (*thing, error)
		List(ctx context.Context) ([]*thing, error)
		Create(ctx context.Context, obj *thing) error
		Update(ctx context.Context, obj *thing) error
		Patch(ctx context.Context, key string, mergePatch []byte) error
		UpdateStatus(ctx context.Context, obj *thing) error
		Delete(ctx context.Context, key string, opts ...entity.DeleteOption) error
		Informer() natsinformer.Informer
		Lister() entity.Lister[*thing]
		Record(ctx context.Context, key string) (*entity.Record, error)
		Close()
	} = (*entity.Client[*thing])(nil)
	_ func(entity.Lister[*thing], string) (*thing, error)                       = entity.Lister[*thing].Get
	_ func(entity.Lister[*thing], labels.Selector) ([]*thing, error)            = entity.Lister[*thing].List
	_ func(entity.Lister[*thing], string, string) ([]*thing, error)             = entity.Lister[*thing].OwnedBy
	_ func(entity.Lister[*thing], string, string) ([]*thing, error)             = entity.Lister[*thing].ByIndex
	_ func(string, func(*thing) []string) entity.Index                          = entity.WithIndex[*thing]
	_ func(uint64) entity.DeleteOption                                          = entity.IfRevision
	_ func() entity.DeleteOption                                                = entity.Purge
	_ func(context.Context, entity.IEntityClient[*thing], string, uint64) error = entity.WaitReconciled[*thing]
)

// Package natsinformer.
var (
	_ = natsinformer.Entry{Key: "", Revision: 0, Created: time.Time{}, Header: nats.Header{}, Value: nil}
	_ = natsinformer.Config{
		Bucket: "", Filter: "", Decode: func(natsinformer.Entry) (runtime.Object, error) { return nil, nil },
		OnInvalid: func(natsinformer.Entry, error) {}, OnResolved: func(string) {}, Indexers: cache.Indexers{}, CompareInterval: time.Minute,
	}
	_ func(jetstream.JetStream, natsinformer.Config) (natsinformer.Informer, error) = natsinformer.New
	_ cache.SharedIndexInformer                                                     = natsinformer.Informer(nil)
	_ interface {
		Exists(key string) bool
		Invalid() map[string]error
		Cursor() uint64
	} = natsinformer.Informer(nil)
	_ = func(obj any) bool { return natsinformer.DeleteOf(obj).Evidenced }
)

// Package external.
type externalClient struct{}

func (externalClient) Kind() string                                      { return "" }
func (externalClient) List(context.Context) ([]external.Resource, error) { return nil, nil }
func (externalClient) Delete(context.Context, string) error              { return nil }

var (
	_ external.IExternalClient = externalClient{}
	_                          = external.Resource{ID: "", OwnerKey: "", Version: ""}
	_ interface {
		Watch(ctx context.Context, changed func(ownerKey string)) error
	} = external.Watcher(nil)
)

// Package controller.
type (
	option         = controller.Option
	sourceOption   = controller.SourceOption
	siteController = controller.Controller[*thing]
)

var (
	_ func(string, entity.IEntityClient[*thing], controller.Reconciler, ...option) (*siteController, error) = controller.New[*thing]
	_ interface {
		Run(ctx context.Context) error
		Enqueue(key string, op controller.Operation)
		EnqueueAfter(key string, op controller.Operation, d time.Duration)
		LastKnown(ctx context.Context, key string) (*thing, error)
		SetOwner(obj metav1.Object, key string)
		ReleaseBrake(ctx context.Context) error
		Stats() controller.Stats
	} = (*siteController)(nil)
	_ controller.Reconciler = controller.ReconcilerFunc(func(context.Context, controller.Request) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Second}, nil
	})
	_ controller.Reconciler = controller.ForObject(func(context.Context, *thing) (controller.Result, error) {
		return controller.Result{}, nil
	})
	_ func(context.Context) string = controller.ReconcileIDFromContext

	_                   = controller.Request{Key: "", Operations: controller.Operations(0)}
	_ func(error) error = controller.TerminalError

	_ func(entity.IEntityClient[*thing], ...sourceOption) option                                                          = controller.Owns[*thing]
	_ func(entity.IEntityClient[*thing], func(context.Context, *thing) ([]string, error), ...sourceOption) option         = controller.Watches[*thing]
	_ func(entity.IEntityClient[*thing], string, ...sourceOption) option                                                  = controller.WatchesIndexed[*thing]
	_ func(string, <-chan string) option                                                                                  = controller.WatchesKeys
	_ func(cache.SharedIndexInformer, ...sourceOption) option                                                             = controller.OwnsKube
	_ func(cache.SharedIndexInformer, func(context.Context, metav1.Object) ([]string, error), ...sourceOption) option     = controller.WatchesKube
	_ func(external.IExternalClient) option                                                                               = controller.OwnsExternal
	_ func(...sourceOption) option                                                                                        = controller.WithPrimary
	_ func(controller.Predicate) sourceOption                                                                             = controller.WithPredicate
	_ func(controller.Deleter) sourceOption                                                                               = controller.WithDeleter
	_ func(int) option                                                                                                    = controller.WithWorkers
	_ func(time.Duration) option                                                                                          = controller.WithResyncInterval
	_ func(time.Duration) option                                                                                          = controller.WithReconcileTimeout
	_ func(time.Duration) option                                                                                          = controller.WithGracePeriod
	_ func(time.Duration) option                                                                                          = controller.WithCacheSyncTimeout
	_ func(time.Duration, time.Duration) option                                                                           = controller.WithBackoff
	_ func(time.Duration, time.Duration) option                                                                           = controller.WithDebounce
	_ func(<-chan struct{}) option                                                                                        = controller.WithReconcileAllOn
	_ func(func(controller.ReconcileResult)) option                                                                       = controller.WithOnResult
	_ func(func(string, error, int) controller.Result) option                                                             = controller.WithErrorPolicy
	_ func() option                                                                                                       = controller.WithoutTeardown
	_ func() option                                                                                                       = controller.WithSweepDryRun
	_ func(metav1.Object) (string, string, bool)                                                                          = controller.OwnerOf
	_ func(context.Context, entity.IEntityClient[*thing], *thing, func(*thing) error) (controller.OperationResult, error) = controller.CreateOrUpdate[*thing]
	_ func(context.Context) (context.Context, context.CancelFunc)                                                         = controller.SignalContext
)

// Package kube.
type settings = kube.Handle[*corev1.ConfigMap]

var (
	_ func(dynamic.Interface, schema.GroupVersionResource, cache.SharedIndexInformer, ...kube.Option) (*settings, error) = kube.New[*corev1.ConfigMap]

	_ func(dynamic.Interface, schema.GroupVersionResource, ...kube.DeleteOption) controller.Deleter = kube.Deleter

	_ interface {
		Get(key string) (*corev1.ConfigMap, error)
		List(selector labels.Selector) ([]*corev1.ConfigMap, error)
		OwnedBy(kind, key string) ([]*corev1.ConfigMap, error)
		Apply(ctx context.Context, obj *corev1.ConfigMap, opts ...kube.ApplyOption) (kube.OperationResult, error)
		CreateOrUpdate(ctx context.Context, obj *corev1.ConfigMap, mutate func(*corev1.ConfigMap) error) (kube.OperationResult, error)
		AdoptOrFail(ctx context.Context, obj *corev1.ConfigMap) error
		Delete(ctx context.Context, obj metav1.Object) error
		Deleter() controller.Deleter
		Owns(opts ...sourceOption) option
		Watches(keys func(context.Context, *corev1.ConfigMap) ([]string, error), opts ...sourceOption) option
	} = (*settings)(nil)

	_ func(string) kube.Option                           = kube.WithKind
	_ func(string) kube.Option                           = kube.WithFieldManager
	_ func(...kube.DeleteOption) kube.Option             = kube.WithDeletes
	_ func(metav1.DeletionPropagation) kube.DeleteOption = kube.WithPropagation
	_ func() kube.ApplyOption                            = kube.WithoutForce

	_ error                = (*kube.ApplyConflictError)(nil)
	_                      = kube.FieldConflict{}
	_ error                = (*controller.ResourceExistsError)(nil)
	_ error                = (*controller.AlreadyOwnedError)(nil)
	_ kube.Object          = (*corev1.ConfigMap)(nil)
	_ kube.OperationResult = kube.OperationResultCreated
)

// The Kumori API.
type kumori = controllerruntime.ControllerRuntime[*thing, *thing, *none, *none, *none, *none, *none, *none, *none]

var (
	_ func(
		string, string, kubernetes.Interface, entity.IEntityClient[*thing],
		[]cache.SharedIndexInformer, []cache.SharedIndexInformer,
		entity.IEntityClient[*thing], entity.IEntityClient[*none], entity.IEntityClient[*none], entity.IEntityClient[*none],
		entity.IEntityClient[*none], entity.IEntityClient[*none], entity.IEntityClient[*none], entity.IEntityClient[*none],
		[]external.IExternalClient, time.Duration,
	) *kumori = controllerruntime.NewControllerRuntime[*thing, *thing, *none, *none, *none, *none, *none, *none, *none]
	_ interface {
		SetCustomController(customController controllerruntime.IController)
		Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
		EnqueueKey(key string, operation controllerruntime.Operation)
		EnqueueKeyAfter(key string, operation controllerruntime.Operation, delay time.Duration)
		Event(object runtime.Object, eventtype string, reason string, message string)
		DecomposeKubeSecondaryResource(obj any) (secondaryResource metav1.Object, primaryKey string, err error)
		Operations(key string) controllerruntime.Operations
		SetOwner(obj metav1.Object, key string)
		HandleSecondary(obj any)
		GarbageSecondaries()
		Clean()
	} = (*kumori)(nil)
	_ interface {
		Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
		SyncHandler(string) error
		HandleSecondary(obj any)
		GarbageSecondaries()
		Clean()
	} = controllerruntime.IController(nil)
)

func TestPinnedConstants(t *testing.T) {
	for i, op := range []controllerruntime.Operation{
		controllerruntime.OperationPut, controllerruntime.OperationDelete, controllerruntime.OperationPurge, controllerruntime.OperationSecondary,
	} {
		if int(op) != i {
			t.Errorf("%v is %d, want %d", op, op, i)
		}
	}
	for _, pair := range [][2]string{
		{controllerruntime.OwnerkindLabel, "kumori/ownerkind"},
		{controllerruntime.OwnerKeyLabel, "kumori/ownerkey"},
		{controllerruntime.OwnerkindAnnotation, "kumori/ownerkind"},
		{controllerruntime.OwnerKeyAnnotation, "kumori/ownerkey"},
		{controllerruntime.ReasonResourceSynced, "Synced"},
		{controllerruntime.ReasonErrResourceExists, "ErrResourceExists"},
		{controllerruntime.MessageErrResourceExists, "Resource %q already exists and is not managed by this controller"},
		{controllerruntime.MessageResourceSyncedCreated, "%q synced successfully (created)"},
		{controllerruntime.MessageResourceSyncedUpdated, "%q synced successfully (updated)"},
		{controllerruntime.MessageResourceSyncedDeleted, "%q synced successfully (deleted)"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("have %q, want %q", pair[0], pair[1])
		}
	}
}
