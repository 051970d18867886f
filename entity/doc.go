// Package entity reads and writes Kubernetes-shaped objects that live in NATS JetStream key-value buckets.
//
// An entity is an ordinary Go type with TypeMeta and ObjectMeta: Object, a kubebuilder type, or
// *unstructured.Unstructured. NewClient binds such a type to a bucket. The bucket holds plain JSON documents, which any
// program in any language may put. The key of a document gives its name and namespace.
//
// # Two buckets, one writer each
//
// The user writes the document, the controller writes the status. Each has its own bucket. So a plain put of a document
// never wipes a status, and a status never wakes the controller that wrote it. Get, List and the Lister join the two.
// The controller keeps one Record per key: status, conditions, and the revision it reconciled last. A record that names
// its controller is also the anchor of a teardown: if the document is gone, a delete is still owed.
//
//	bucket websites          shop.front   {"spec":{"host":"…"}}                         user
//	bucket websites-status   shop.front   {"observedRevision":7,"status":{…},…}         controller
//	                         _nagi.lease  …                                             reserved keys, no records
//
// # Reading
//
// Get and Confirm ask the leader of the stream and cost a round trip. The Lister reads a cache that natsinformer fills;
// the first read starts it. A read costs about a microsecond and returns copies. It sees every write that has returned
// in this process, through the same client or one that shares its cache (see below), even before the cache has it. What
// others write arrives as an event: other processes, plain puts, and a client of the same bucket that another call of
// NewClient made. resourceVersion and generation are the document's sequence in the stream.
//
// # Writing
//
// Every write is a compare-and-set and learns its sequence. Errors are apimachinery's: IsConflict, IsAlreadyExists,
// IsNotFound and IsInvalid mean what they mean in Kubernetes. If an acknowledgement is lost, the client asks the leader
// whether the write was applied. If the leader cannot tell, the error is ErrOutcomeUnknown; the client never guesses.
//
// # Two controllers over one bucket
//
// Each controller needs a status bucket of its own, and so a client of its own. Make the first client with NewClient,
// and derive the second one from it:
//
//	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
//	audited, err := sites.WithStatusBucket(ctx, "sites-audit")
//
// The two share one cache of documents: the process holds each document once, and the server has one consumer. What is
// written through one of them, the listers of both read at once. Two calls of NewClient make independent clients: each
// has a cache of its own, and what one has written the other reads when its event has come, a moment later.
// SharesCacheWith tells which is the case. Clients of different types never share.
//
// Records, statuses and reserved keys are not shared. A client joins documents with the statuses of its own status
// bucket, and waits, in WaitReconciled, for the controller that writes there. So write the status of an object through
// the client that read it. Who watches the bucket to learn of one controller's statuses takes that controller's client.
//
// The clients start, stop and close in any order. Handlers and hooks end with the client that they were given to, and
// the cache with the last of the clients. A process that runs both controllers needs the permissions of both: Join
// them.
//
// # Documents of others
//
// A document that is too large (Config.MaxDocumentBytes), nested deeper than 1,000 levels, no JSON object or not of the
// client's type is invalid: it exists, and the last good version stays. Errors say where in the document, and which
// type was wanted. They never quote the document. Keys may have any bytes and any length; where an error or a hook
// names a key that no entity can have, it is quoted and cut.
//
// # Members that the type does not know
//
// Update, and with it CreateOrUpdate, keeps members of objects that T does not know, at any depth, so that a binary of
// yesterday does not erase the field of tomorrow. What the writer removed goes with all that is in it: the key of a
// map, or a struct whose pointer is nil or which is left out. Lists are replaced as a whole, with what T does not know
// of their elements. *unstructured.Unstructured, types with an UnmarshalJSON of their own and what an interface holds
// know everything. It costs nothing where there are none. Of a revision that the client has not read itself, Update
// reads the document from the leader first. Patch keeps all that it does not name.
//
// Update keeps zeros that a document writes out, too: {"replicas":0} stays, although T leaves the field out with
// omitempty or omitzero. So do false, "", null, [], {}, a struct of zeros under omitzero, and the zero time. A field
// that the writer has set, and that was not zero, is left out when the writer sets it to zero. As above, elements of
// lists are written as T writes them. Zeros in metadata that the key or the stream decides are not kept, and neither
// are those of a struct that T embeds by a pointer: they would make it again after a writer has set it to nil. To list
// documents with such zeros takes the cache up to three times as long, and some hundred bytes more for each.
//
// Config.Strict says what becomes of documents with unknown, double or wrongly cased members, text that is no UTF-8,
// the escape of half a character (\ud800), another kind or apiVersion, ownerReferences or finalizers. By default a
// controller says so in the record of its primary (ConditionDocumentWarnings) and in an event; a controller without
// records says nothing. Of text that is none a typed write makes U+FFFD, unless it is in a member that T does not know.
// A typed write that says another kind is always refused, and another apiVersion, too, if Config.APIVersion is set.
//
// # Documents that expire
//
// CreateWith, UpdateWith and PatchWith take WithTTL, which sets how long a document lasts from now on, and WithoutTTL;
// so does CreateOrUpdateWith of package controller. The example of WithTTL shows a lease that is renewed.
// The TTL may also be that of another program (Nats-TTL, jetstream.KeyTTL). Update, Patch and CreateOrUpdate keep what
// is left of it. A document that is restored gets what is left, too. Objects that were read show when they end in the
// annotation ExpiresAnnotation, see ExpiresAt; it is never written into the document. To a controller the end is a
// delete. TTLs need nats-server 2.11, and a bucket that takes them, as those that NewClient makes do.
//
// # Numbers
//
// A whole number in an interface, such as a member of a map[string]any, is an int64, as in apimachinery, and any other
// number a float64; encoding/json alone would make a float64 of each and round it beyond 2^53. A whole number that no
// int64 has is a float64, too, and is written as such: give it a field of type uint64 or json.Number.
//
// # Transforms
//
// Client.Informer().SetTransform sets what each document goes through before the cache keeps it, mostly to save memory.
// It returns a T, the one that it was given or another, and must not wait for the client. Handlers, lister and store
// show what it made of a document, own writes too; Get and List, which read live, show all. A document that it refuses,
// or at which it panics, is invalid. Name, revision, type, and the annotations and labels of the runtime (the owner's,
// SuspendAnnotation, DeletionPolicyAnnotation) stay as they are in the document, whatever the transform does.
//
// What a transform leaves out is not lost. Update keeps it, with a request to the leader, and refuses what would lose
// some of it: a list, or a whole object, that both the transform and the writer have changed. Objects and their copies
// carry how they were read in their kind. Where that was set since (SetGroupVersionKind), or the object was made of
// JSON, what was left out and what was removed look the same, and Update refuses such an object unless it has all that
// the transform leaves out: update what Get has returned, without setting its kind, or use Patch. CreateOrUpdate reads
// from the leader before it writes. The record of a primary has the whole document; the client keeps up to 16 MiB of
// those that the cache has read last for it, and else asks the leader. But a change of what is left out is not noticed:
// predicates and CreateOrUpdate compare what the cache has.
//
// Config.OnlyMetadata is a transform that is ready: it leaves the metadata, and a hash of the rest.
//
// The objects of a cache share equal labels and annotations. Do not change them in a handler; what a lister returns is
// a copy. Of what names an owner, and of all with OnlyMetadata, the cache holds a packed form: each handler, and each
// read of the store, gets another object, so compare their keys and revisions, not pointers.
//
// # Metadata
//
//   - resourceVersion and generation are the sequence of the document in its stream. What a document says is ignored.
//   - uid and creationTimestamp are what the document says, mostly nothing: NATS has neither, and none is made up.
//     A delete and a create that are seen late are an update. How old a primary is, the record's firstSeen says.
//   - finalizers have no effect, and a write that adds one is refused: the record of a primary is its finalizer. When
//     the document is deleted, the reconciler is called with OperationDelete, and the record goes after that has
//     succeeded. Finalizers that a document has already are kept by Update, and warned about.
//   - ownerReferences have no effect in NATS: owners are named by annotations and labels, see SetOwner of package
//     controller. They are kept, and warned about.
//   - deletionTimestamp is never set.
//
// # Versions of nats-server
//
// The server that leads a bucket's stream must be nats-server 2.9 or newer. NewClient refuses an older one, with the
// version it found. With 2.11 come TTLs of messages and markers of what a limit removes. Before that NewClient warns
// that the markers of deletes stay for ever, a bucket with an age limit is refused, and the server ignores the TTL that
// somebody gives to a document.
//
// # Rollups
//
// In a bucket that allows rollups, one message with the header Nats-Rollup: all, to any key, removes all other keys,
// also those that its writer may not write. So the buckets that NewClient makes deny rollups, and other clients cannot
// purge keys there (nats kv purge); they can delete them. Config.AllowRollup makes a bucket that allows rollups. About
// one that exists, whose keys belong to several namespaces, NewClient warns.
//
// # Permissions
//
// [Permissions] returns what a user of NATS needs for a role, and prints it as configuration of nats-server. A reader
// sees the whole of both buckets: NATS cannot confine it to a namespace. docs/security.md lists the sets, and shows how
// tenants are confined to theirs by an account.
//
// A denied request fails at once, and IsForbidden holds for its error, which names the subject. To hear of denials, the
// client puts a handler of its own before the connection's error handler, which is called as before.
package entity
