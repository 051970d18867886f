package source

import "k8s.io/client-go/tools/cache"

// Place is where secondaries are, as a reconcile names it: a bucket, or a Kubernetes informer.
type Place struct {
	Bucket   string
	Informer cache.SharedIndexInformer
}
