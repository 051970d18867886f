package ownwrites

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observer is told of the documents that clients write under a context.
type Observer interface {
	// Wrote is told of a document in a bucket, as it was sent. It must neither modify nor keep obj, nor block.
	Wrote(bucket string, obj metav1.Object)
}

// ObserverKey is the key under which a context has an Observer.
type ObserverKey struct{}

// Tell tells the observer of a context, if it has one.
func Tell(ctx context.Context, bucket string, obj metav1.Object) {
	if o, ok := ctx.Value(ObserverKey{}).(Observer); ok {
		o.Wrote(bucket, obj)
	}
}
