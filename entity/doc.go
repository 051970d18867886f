// Package entity reads and writes Kubernetes-shaped objects that live in NATS JetStream key-value buckets.
//
// An entity is an ordinary Go type with TypeMeta and ObjectMeta: Object, a kubebuilder type, or
// *unstructured.Unstructured. NewClient binds such a type to a bucket. What is in the bucket are plain JSON documents,
// which any program in any language may put; the key says name and namespace.
//
// # Two buckets, one writer each
//
// The user writes the document, the controller writes the status. Each has a bucket of its own, so that a plain put of
// a document never wipes a status, and a status never wakes the controller that wrote it. Get, List and the Lister join
// the two. What the controller keeps per key is a Record: status, conditions, what was reconciled last. A record that
// names its controller also is the anchor of a teardown: with the document gone, it says that a delete is still owed.
//
//	bucket websites          shop.front   {"spec":{"host":"…"}}                         user
//	bucket websites-status   shop.front   {"observedRevision":7,"status":{…},…}         controller
//	                         _nagi.lease  …                                             reserved keys, no records
//
// # Reading
//
// Get and Confirm ask the leader of the stream and cost a round trip. The Lister reads a cache, fed by
// natsinformer, whose first read starts it: it costs about a microsecond, returns copies, and sees every write of this
// process, even before the cache was told of it. resourceVersion and generation are the document's sequence in the stream.
//
// # Writing
//
// Every write is a compare-and-set, and learns its sequence. Errors are apimachinery's: IsConflict, IsAlreadyExists,
// IsNotFound and IsInvalid mean what they mean in Kubernetes. When an acknowledgement is lost, the client finds out from
// the leader what became of the write; where that is impossible the error is ErrOutcomeUnknown, and never a guess.
//
// # Permissions
//
// A reader publishes to $JS.API.STREAM.INFO.KV_b, $JS.API.STREAM.MSG.GET.KV_b, and for the caches to
// $JS.API.CONSUMER.CREATE.KV_b.>, $JS.API.CONSUMER.MSG.NEXT.KV_b.*, $JS.API.CONSUMER.DELETE.KV_b.* and
// $JS.API.CONSUMER.INFO.KV_b.*, for both buckets b, and subscribes to its inbox. A writer publishes to $KV.b.> besides.
// Who creates buckets needs $JS.API.STREAM.CREATE.KV_b. All work per namespace, too: $KV.b.shop.>.
package entity
