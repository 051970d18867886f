// Package kinds finds what a user calls a kind: an entry of the registry, or a plain bucket where there is none.
//
// The rule: a name that means one kind is enough, in any case, in the singular or as its bucket is called. A name that
// means several is refused, with those that it may mean.
package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of documents.
type Kind struct {
	*registry.Entry
	// Registered says that the registry has it. A kind of a plain bucket has neither schema nor controllers.
	Registered bool

	parse  sync.Once
	schema map[string]any // parsed; nil if there is none
}

// Object is a document of any kind, as package entity reads it.
type Object = unstructured.Unstructured

// Plain is the kind of a bucket that the registry does not know. Its name is that of the bucket.
type Plain struct {
	Bucket       string
	StatusBucket string // the default is Bucket+"-status"; entity.NoStatusBucket means none
	Namespaced   bool
}

// Kind makes a kind of it.
func (p Plain) Kind() *Kind {
	status := p.StatusBucket
	switch status {
	case "":
		status = p.Bucket + "-status"
	case entity.NoStatusBucket:
		status = ""
	}
	return &Kind{Entry: &registry.Entry{
		SchemaVersion: registry.SchemaVersion, Kind: p.Bucket, Bucket: p.Bucket, StatusBucket: status,
		Namespaced: p.Namespaced, Columns: registry.DefaultColumns(),
	}}
}

// Config is that of a client for the documents, which makes no bucket.
func (k *Kind) Config() entity.Config {
	status := k.StatusBucket
	if status == "" {
		status = entity.NoStatusBucket
	}
	return entity.Config{
		Kind: k.Kind, APIVersion: k.APIVersion, Bucket: k.Bucket, StatusBucket: status, Namespaced: k.Namespaced,
		SecretFields: k.SecretFields, BindOnly: true,
	}
}

// Client makes a client of the documents. Who is done closes it.
func (k *Kind) Client(ctx context.Context, js jetstream.JetStream) (*entity.Client[*Object], error) {
	return entity.NewClient[*Object](ctx, js, k.Config())
}

// Name is what to call the kind: its key in the registry, which no other has.
func (k *Kind) Name() string { return registry.Key(k.Kind, k.APIVersion) }

// NamespaceOf is that of a key, which is client-go's; "" where keys have none.
func (k *Kind) NamespaceOf(key string) string {
	if !k.Namespaced {
		return ""
	}
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// Of finds the kind that a name means among those of the registry.
func Of(all []*registry.Entry, name string) (*Kind, error) {
	if err := twoBuckets(all, name); err != nil {
		return nil, err
	}
	for _, means := range []func(*registry.Entry) bool{
		func(e *registry.Entry) bool { return registry.Key(e.Kind, e.APIVersion) == name },
		func(e *registry.Entry) bool { return strings.EqualFold(registry.Key(e.Kind, e.APIVersion), name) },
		func(e *registry.Entry) bool {
			return strings.EqualFold(e.Kind, name) || strings.EqualFold(e.Bucket, name)
		},
		func(e *registry.Entry) bool { return strings.EqualFold(e.Kind+"s", name) },
	} {
		var found []*registry.Entry
		for _, e := range all {
			if means(e) {
				found = append(found, e)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return &Kind{Entry: found[0], Registered: true}, nil
		default:
			return nil, fmt.Errorf("kind %s may be one of %s: name one of these", printable.Quote(name),
				strings.Join(names(found), ", "))
		}
	}
	return nil, unknown(all, name)
}

// twoBuckets refuses a name that is what one kind is called and the bucket of another: who publishes a kind must not be
// able to have what users call another mean its own documents.
func twoBuckets(all []*registry.Entry, name string) error {
	for _, a := range all {
		if !strings.EqualFold(registry.Key(a.Kind, a.APIVersion), name) {
			continue
		}
		for _, b := range all {
			if strings.EqualFold(b.Bucket, name) && a.Bucket != b.Bucket {
				return fmt.Errorf("%s is the kind of bucket %s, and the bucket of kind %s: name one of these",
					printable.Quote(name), printable.Quote(a.Bucket),
					printable.Quote(registry.Key(b.Kind, b.APIVersion)))
			}
		}
	}
	return nil
}

func names(all []*registry.Entry) (names []string) {
	for _, e := range all {
		names = append(names, printable.Text(registry.Key(e.Kind, e.APIVersion)))
	}
	slices.Sort(names)
	return names
}

// used is the bucket that a name means among what controllers own and watch; "" if none.
func used(all []*registry.Entry, name string) string {
	for _, e := range all {
		for _, c := range e.Controllers {
			for _, r := range slices.Concat(c.Owns, c.Watches) {
				if r.Bucket != "" && (strings.EqualFold(r.Bucket, name) || strings.EqualFold(r.Kind, name)) {
					return r.Bucket
				}
			}
		}
	}
	return ""
}

// unknown is the error about a name that means no kind; apimachinery's IsNotFound holds for it.
func unknown(all []*registry.Entry, name string) error {
	says := "the registry (bucket " + registry.Bucket + ") has no kinds: a controller with the option " +
		"registry.Publish publishes its own; --bucket names a bucket without"
	if len(all) > 0 {
		const most = 10
		listed := names(all)
		if len(listed) > most {
			listed = append(listed[:most:most], "…")
		}
		says = "there are " + strings.Join(listed, ", ") +
			" (nagi kinds); --bucket names a bucket that the registry does not have"
	}
	if bucket := used(all, name); bucket != "" {
		says = "the registry has it only as what a controller owns or watches: name its bucket instead of a kind, " +
			"with --bucket " + printable.Text(bucket)
	}
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "kinds"}, name)
	err.ErrStatus.Message = fmt.Sprintf("there is no kind %s: %s", printable.Quote(name), says)
	return err
}
