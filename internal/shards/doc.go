// Package shards lets several members work at one kind, each at some of the slots that its keys fall into.
//
// There is no coordinator. Each member holds a lease: a key of the status bucket that the server itself removes when it
// is not renewed. Who is to have a slot follows from the names of the members alone, by the highest random weight. Who
// has it is written in the slot's own key, and the revision of that write is the slot's epoch. A member takes a slot
// only by compare-and-set on that key: from its owner, who has drained it and writes the new owner there (hand-over),
// or from an owner whose lease the leader of the stream says is gone (take-over).
//
// The rules, which the code names:
//
//	L1  A member notes the time before it sends a renewal.
//	L2  Once that is acknowledged, it may work until that time and the duration of the lease, less a margin.
//	L3  A renewal that conflicts is looked at: if the own value is there, only the acknowledgement was lost. Else the
//	    member is dead: its work is cancelled, and it joins anew, under another id.
//	L4  Of the monotonic clock and that of the wall the one counts by which the lease ends earlier.
//	H1  Who is to have a slot loads it, and then says in its own key that it is ready for it.
//	H2  The owner starts nothing more in the slot once it sees that.
//	H3  When nothing runs in the slot any more, the owner writes the new owner, at the epoch that it holds.
//	H4  Who sees its own id in a slot's key owns the slot. The revision is its epoch.
//	H5  If the one who is to have it vanishes before, the owner goes on.
//	H6  Who leaves says so, hands over all its slots, and removes its own key.
//	T1  Who is to have a slot, and sees no lease of its owner, or none that is renewed, may take it,
//	T2  if the leader of the stream says, too, that the owner's lease is gone: an absence in a view proves nothing,
//	T3  by compare-and-set on the slot's key as it was seen.
//	T4  If what tells of owners and leases is gone, with its stream or by hand, no slot is taken for as long as a
//	    lease lasts: its owner may not have noticed. A member's key that goes before its lease is over is no end of
//	    it, unless the server says that it has expired. Nor is a slot taken from an owner that is named by a store
//	    which is younger than a lease lasts: that may have been put back.
//	R1  Work in a slot starts only while the member owns it, is not draining it, and its lease lasts.
//	R2  The context of that work ends with the lease.
//
// Views of members may differ, and be late: that costs moves and never safety.
package shards
