// Package contract holds the public names and signatures that other modules compile against.
package contract

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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

// Package controllerruntime.
type (
	option       = controllerruntime.Option
	sourceOption = controllerruntime.SourceOption
	controller   = controllerruntime.Controller[*thing]
)

var (
	_ func(string, entity.IEntityClient[*thing], controllerruntime.Reconciler, ...option) (*controller, error) = controllerruntime.New[*thing]
	_ interface {
		Run(ctx context.Context) error
		Enqueue(key string, op controllerruntime.Operation)
		EnqueueAfter(key string, op controllerruntime.Operation, d time.Duration)
		LastKnown(ctx context.Context, key string) (*thing, error)
		SetOwner(obj metav1.Object, key string)
		ReleaseBrake(ctx context.Context) error
		Stats() controllerruntime.Stats
	} = (*controller)(nil)
	_ controllerruntime.Reconciler = controllerruntime.ReconcilerFunc(func(context.Context, controllerruntime.Request) (controllerruntime.Result, error) {
		return controllerruntime.Result{RequeueAfter: time.Second}, nil
	})
	_                   = controllerruntime.Request{Key: "", Operations: controllerruntime.Operations(0)}
	_ func(error) error = controllerruntime.TerminalError

	_ func(entity.IEntityClient[*thing], ...sourceOption) option                                                                 = controllerruntime.Owns[*thing]
	_ func(entity.IEntityClient[*thing], func(context.Context, *thing) ([]string, error), ...sourceOption) option                = controllerruntime.Watches[*thing]
	_ func(cache.SharedIndexInformer, ...sourceOption) option                                                                    = controllerruntime.OwnsKube
	_ func(cache.SharedIndexInformer, func(context.Context, metav1.Object) ([]string, error), ...sourceOption) option            = controllerruntime.WatchesKube
	_ func(external.IExternalClient) option                                                                                      = controllerruntime.OwnsExternal
	_ func(...sourceOption) option                                                                                               = controllerruntime.WithPrimary
	_ func(controllerruntime.Predicate) sourceOption                                                                             = controllerruntime.WithPredicate
	_ func(controllerruntime.Deleter) sourceOption                                                                               = controllerruntime.WithDeleter
	_ func(int) option                                                                                                           = controllerruntime.WithWorkers
	_ func(time.Duration) option                                                                                                 = controllerruntime.WithResyncInterval
	_ func(time.Duration) option                                                                                                 = controllerruntime.WithReconcileTimeout
	_ func(time.Duration) option                                                                                                 = controllerruntime.WithGracePeriod
	_ func(time.Duration) option                                                                                                 = controllerruntime.WithCacheSyncTimeout
	_ func(time.Duration, time.Duration) option                                                                                  = controllerruntime.WithBackoff
	_ func(time.Duration, time.Duration) option                                                                                  = controllerruntime.WithDebounce
	_ func(<-chan struct{}) option                                                                                               = controllerruntime.WithReconcileAllOn
	_ func(func(controllerruntime.ReconcileResult)) option                                                                       = controllerruntime.WithOnResult
	_ func(func(string, error, int) controllerruntime.Result) option                                                             = controllerruntime.WithErrorPolicy
	_ func() option                                                                                                              = controllerruntime.WithoutTeardown
	_ func() option                                                                                                              = controllerruntime.WithSweepDryRun
	_ func(metav1.Object) (string, string, bool)                                                                                 = controllerruntime.OwnerOf
	_ func(context.Context, entity.IEntityClient[*thing], *thing, func(*thing) error) (controllerruntime.OperationResult, error) = controllerruntime.CreateOrUpdate[*thing]
	_ func(context.Context) (context.Context, context.CancelFunc)                                                                = controllerruntime.SignalContext
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
