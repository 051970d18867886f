package worlds

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// deed is what an event does.
type deed string

// What users do.
const (
	put      deed = "put"
	patch    deed = "patch"
	remove   deed = "delete"
	recreate deed = "delete and put"
	invalid  deed = "put what does not decode"
)

// What happens to the wire of a replica, and to the replica.
const (
	slow       deed = "slow wire"
	cut        deed = "cut"
	refused    deed = "connections refused"
	halfOpen   deed = "half-open wire"
	paused     deed = "nothing passes"
	lostAcks   deed = "lost acknowledgements"
	lostWrites deed = "lost writes"
	lostAsks   deed = "lost requests"
	lostNews   deed = "lost news"
	doubled    deed = "doubled messages"
	lateAcks   deed = "late acknowledgements"
	crash      deed = "crash"
	update     deed = "stop and start"
	deploy     deed = "stop, and start with other settings"
)

// What happens to the server and the streams.
const (
	serverRestarts deed = "the server restarts"
	full           deed = "a full stream"
	refusing       deed = "a stream that refuses"
	rights         deed = "rights taken"
	backup         deed = "an owned stream restored"
	backupDocs     deed = "documents restored"
	backupRecords  deed = "records restored"
	purgeOwned     deed = "owned keys purged"
	purgeDocs      deed = "documents purged"
	sealed         deed = "a sealed stream"
	noRecords      deed = "the status bucket removed"
	noDocs         deed = "the bucket of documents removed"
	noOwned        deed = "an owned bucket removed"
	empty          deed = "the server comes back empty"
	clock          deed = "the server's clock jumps"
)

// What saboteurs do to keys.
const (
	deleteOwned deed = "an owned key deleted"
	editOwned   deed = "an owned key edited"
	vanishOwned deed = "an owned key purged"
	vanishDoc   deed = "a document purged"
	noRecord    deed = "a record deleted"
	vanishedRec deed = "a record purged"
	noLease     deed = "the lease deleted"
	reserved    deed = "a reserved key purged"
)

// ofSubject is a fault of the subject's own.
const ofSubject deed = "a fault of the subject"

// What reconcilers do for a while.
const (
	fails  deed = "reconciles fail"
	panics deed = "reconciles panic"
	slowly deed = "reconciles are slow"
	stuck  deed = "reconciles are stuck"
	half   deed = "reconciles end half done"
)

// An object is what a deed happens to.
type object int

const (
	aUser object = iota
	aReplica
	aStream
	aClock
	aKey
	aReconciler
	theSubject
)

// about says of each deed what it happens to, whether it lasts, and whether it is about a document.
var about = map[deed]struct {
	to         object
	lasts, key bool
	sharing    bool // it is only where replicas share the keys
}{
	put: {to: aUser, key: true}, patch: {to: aUser, key: true}, remove: {to: aUser, key: true},
	recreate: {to: aUser, key: true}, invalid: {to: aUser, key: true},

	slow: {to: aReplica, lasts: true}, cut: {to: aReplica}, refused: {to: aReplica, lasts: true},
	halfOpen: {to: aReplica, lasts: true}, paused: {to: aReplica, lasts: true}, lostAcks: {to: aReplica},
	lostWrites: {to: aReplica}, lostAsks: {to: aReplica}, lostNews: {to: aReplica}, doubled: {to: aReplica},
	lateAcks: {to: aReplica, lasts: true}, crash: {to: aReplica, lasts: true}, update: {to: aReplica, lasts: true},
	deploy: {to: aReplica, lasts: true},

	serverRestarts: {to: aStream, lasts: true}, full: {to: aStream, lasts: true}, refusing: {to: aStream, lasts: true},
	rights: {to: aStream, lasts: true}, backup: {to: aStream, lasts: true}, backupDocs: {to: aStream, lasts: true},
	backupRecords: {to: aStream, lasts: true}, purgeOwned: {to: aStream}, purgeDocs: {to: aStream},
	sealed: {to: aStream, lasts: true}, noRecords: {to: aStream, lasts: true}, noDocs: {to: aStream, lasts: true},
	noOwned: {to: aStream, lasts: true}, empty: {to: aStream, lasts: true}, clock: {to: aClock},

	deleteOwned: {to: aKey}, editOwned: {to: aKey}, vanishOwned: {to: aKey}, vanishDoc: {to: aKey, key: true},
	noRecord: {to: aKey, key: true}, vanishedRec: {to: aKey, key: true}, noLease: {to: aKey}, reserved: {to: aKey},

	fails: {to: aReconciler, lasts: true}, panics: {to: aReconciler, lasts: true}, slowly: {to: aReconciler, lasts: true},
	stuck: {to: aReconciler, lasts: true}, half: {to: aReconciler, lasts: true},

	ofSubject: {to: theSubject, lasts: true},

	join: {to: aReplica, lasts: true, sharing: true}, leave: {to: aReplica, lasts: true, sharing: true},
	kill: {to: aReplica, lasts: true, sharing: true}, lateViews: {to: aReplica, lasts: true, sharing: true},
	oldViews: {to: aReplica, lasts: true, sharing: true},
}

// everyday are deeds of each night; all others are faults, of which a night has some.
var everyday = []deed{put, put, put, put, put, patch, patch, remove, remove, recreate}

// faults are all faults of any night, in an order.
func faults() (all []deed) {
	for d := range about {
		if !slices.Contains(everyday, d) && !about[d].sharing {
			all = append(all, d)
		}
	}
	slices.Sort(all)
	return all
}

func hash(words ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, words...)
	return h.Sum64()
}
