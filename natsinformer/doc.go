// Package natsinformer builds a client-go SharedIndexInformer over a NATS JetStream key-value bucket.
//
// The informer is client-go's own: store, indexers and handler fan-out are the ones every Kubernetes controller uses.
// This package adds the list and the watch below it. JetStream's stock watcher (kv.Watch) cannot serve as these: its
// "initial values done" marker fires while keys are missing, it needs 10 to 20 seconds to notice a restarted server or
// a deleted consumer, and it never hears of keys that vanish without a message. This package promises:
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
// A list reads a pull consumer over the whole stream until the consumer itself says that it has come to the end (see
// end.go for why nothing else proves that no key is missing). A watch is the same consumer, made from the cursor on:
// the stream sequence that was processed last. When the consumer falls silent, is deleted or skips a sequence, or the
// connection is lost, the informer makes a new one from the cursor. First it asks the stream's leader, and only the
// leader, whether it is still the same stream. If not, it lists the stream again inside the same watch and emits the
// difference as events.
//
// Every few seconds, and after each recovery, the informer compares the number of keys with the server's. This finds
// keys that vanished without a message, as by a purge through the API. It costs one small request. Where Config.Filter
// is set, or the stream has other subjects too, a count costs the server much: then the informer asks for the state of
// the whole stream every few seconds, and counts when that shows that messages went, and every few minutes. From the
// moment the counts differ until the store shows what there is, Status.Suspect says so. A server that was killed may
// also bring back the revision before a purge. So the informer also lists the stream again, once within
// CompareInterval, when the server no longer had our consumer, and after each interruption where one server of a
// cluster has the only replica. Unchanged entries are not decoded again. All retries are inside, jittered, and at most
// about a second apart, because client-go's reflector would wait up to a minute and list everything again.
//
// When a document expires whose writer set a TTL (Nats-TTL), a stream without limit markers sends nothing. The informer
// knows when that is due, and asks the leader then. It delivers the delete as soon as the leader has nothing of the
// key, mostly within a second. The leader's word and clock count. Keys without a TTL cost nothing. Where a bucket keeps
// more than one revision of a key, the one before is the latest again: the informer reads it, and tells of a change to
// a lower revision. Such a bucket is better made with a history of 1.
//
// Informer.Cursor tells up to which sequence the store is complete, and WaitCursor waits for a sequence: to read
// one's own write, or to know that something does not exist. Where the stream has a message for each sequence, this
// is known at once. Where one is missing, its key may have been written again and the newer message may be still to
// come. Then it is known when the consumer says, as at the end of a list, that there is nothing more.
//
// resourceVersion is the revision of the key, which in JetStream is the sequence of its message in the stream. The
// store's is the sequence up to which it is complete; it is 0 only where the stream never had a message.
//
// The informers do not resync, not even for a handler that was added with a resync period. The handler that was set
// with SetWatchErrorHandler is told of what Config.OnError is told, but for nil; its reflector is for the name alone.
//
// A transform (Informer.SetTransform) is applied once to each revision, right after Config.Decode. What it leaves out
// is kept nowhere. It sees no deletes: their handlers get a copy of what it made of the last revision.
//
// # Mirrors and sources
//
// The stream of Config.Bucket may be a mirror of a bucket, or take another one's documents as a source, in this domain
// or another: good for readers at the edge. Such a stream keeps the subjects of the origin ($KV.<origin>.), unless a
// subject transform renames them. The informer finds out where the documents are, and reads them there; revisions are
// those of the mirror. Write to the origin. A purge of the origin through the API does not reach a mirror: there, too,
// the informer shows what the mirror has. A stream that keeps no documents of a bucket is an error that names what it
// keeps: in Status, to OnError and in the log. A permission to create consumers that ends with the filter names the
// subjects of the origin.
//
// # Several accounts
//
// Where the bucket is in another account, that one exports $JS.API.> as a service with response_type: stream, and this
// one imports it; docs/security.md shows both, with what else a controller needs. Without the response type the server
// passes on the first message of each answer only. Status, OnError and the log tell that, with what was asked for and
// what came.
//
// # Limits of the server
//
// An informer needs one consumer of the stream (max_consumers). Its pulls ask for as many messages as
// jetstream.limits.max_request_batch allows, and at most 4,096. A list takes a round trip for each of them, so a low
// limit makes it slow. The consumer asks for an inactive_threshold of 30 s, or what the stream allows
// (consumer_limits).
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
// # Versions of nats-server
//
// The server that leads the stream must be nats-server 2.9 or newer. Status and OnError name an older one. A leaf node
// or another server on the way may be older.
//
// # Permissions
//
// The connection's user needs, for a bucket b, to publish to
//
//	$JS.API.STREAM.INFO.KV_b  $JS.API.STREAM.MSG.GET.KV_b  $JS.API.CONSUMER.CREATE.KV_b.>
//	$JS.API.CONSUMER.MSG.NEXT.KV_b.*
//
// and to subscribe to its inbox: give the connection a prefix of its own (nats.CustomInboxPrefix), because who may
// subscribe to _INBOX.> hears the answers to everybody. Package entity has such lists as data (entity.Permissions).
// Instead of CONSUMER.CREATE.KV_b.> the subject may end with the filter, as in CONSUMER.CREATE.KV_b.*.$KV.b.>.
//
// With $JS.API.CONSUMER.DELETE.KV_b.*, too, no consumer outlives the informer. It is the right to delete all consumers
// whose names one knows. Without it the server drops each half a minute after its last use, which the log says once.
// Config.OnError, Status and the log name any other missing permission. To hear of denials, the informer puts a handler
// of its own before the connection's error handler, which is called as before.
package natsinformer
