// Package natsinformer builds a client-go SharedIndexInformer over a NATS JetStream key-value bucket.
//
// The informer is client-go's own: store, indexers and handler fan-out are the ones every Kubernetes controller uses.
// What this package adds is the list and the watch below it, which JetStream's stock watcher (kv.Watch) is not: its
// "initial values done" marker fires while keys are missing, it needs 10 to 20 seconds to notice a restarted server or a
// deleted consumer, and it never hears of keys that vanish without a message. This package promises:
//
//  1. HasSynced is true only when every key that existed throughout the list is in the store or was reported invalid.
//  2. After that the latest state of every key arrives, in revision order per key, whatever happens in between, and
//     recovery takes less than two seconds from the moment the server answers again.
//  3. The store converges to the server's key set even where the server sends no event: bucket TTL, purges through the
//     API, expired tombstones, a stream that was deleted and made again or restored from a backup.
//  4. A delete handler gets the last known object, and DeleteOf tells whether the delete was read in the stream or only
//     inferred from absence.
//  5. A document that does not decode is never a delete: the last good version stays, and the key is reported invalid.
//  6. Nothing outlives the informer, neither a goroutine nor a consumer on the server.
//  7. It stays open: no fault of the server ends it, only its context does.
//
// # How it works
//
// A list is a pull consumer over the whole stream, read until the consumer itself says that it has come to the end (see
// end.go for why nothing else proves that no key is missing). A watch is the same consumer made from the cursor on: the
// stream sequence that was processed last. When the consumer falls silent, is deleted, skips a sequence, or the
// connection is lost, a new one is made from the cursor. Before that the stream's leader (nobody else is believed) is
// asked whether it is still the same stream; if it is not, it is listed again inside the same watch, and the difference
// is emitted as events. Every few minutes, and after each recovery, the number of keys is compared with the server's,
// which finds those that vanished without a message. A server that was killed may even bring messages back: of a key
// that was purged the revision before. So when the server no longer had our consumer, and after each interruption where
// one server of a cluster has the only replica, the stream is also listed again, once within CompareInterval; what did
// not change is not decoded again. All retries are inside, jittered, and at most about a second apart, because
// client-go's reflector would wait up to a minute and list everything again.
//
// Informer.Cursor tells up to which sequence the store is complete, and WaitCursor waits for it: to read one's own write, or
// to know that something does not exist. Where the stream has a message for each sequence, that is known at once. Where
// one is missing, its key may have been written again and the newer message be still to come; then it is known when the
// consumer has told, as at the end of a list, that there is nothing more.
//
// resourceVersion is the revision of the key, which in JetStream is the sequence of its message in the stream.
//
// # Half-open connections
//
// The informer notices a connection over which nothing comes within 1.25 seconds, but the connection is the user's, and
// only the NATS client can replace it. By default it does so after two unanswered pings two minutes apart. Connect with
//
//	nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.MaxReconnects(-1)
//
// to have a dead peer noticed within six seconds, and never to give up reconnecting.
//
// # Permissions
//
// The connection's user needs, for a bucket b, to publish to
//
//	$JS.API.STREAM.INFO.KV_b  $JS.API.STREAM.MSG.GET.KV_b  $JS.API.CONSUMER.CREATE.KV_b.>
//	$JS.API.CONSUMER.MSG.NEXT.KV_b.*  $JS.API.CONSUMER.DELETE.KV_b.*
//
// and to subscribe to its inbox (_INBOX.> unless the connection has a custom inbox prefix). What is missing is named by
// Config.OnError, Status and the log.
package natsinformer
