package entity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// reservedFilter matches the reserved keys.
const reservedFilter = ReservedPrefix + ".>"

// reservedKind is what errors call reserved keys.
const reservedKind = "reserved key"

// GetReserved reads a reserved key of the status bucket live. name starts with "_nagi.". IsNotFound if there is none;
// revision is then that of its delete marker, or 0 if it has none. What a server wrote there as an answer is recognised
// by kvstream.IsReply: of a forwarded message, which has its mark in the headers, kvstream.ReplyText is returned.
func (r *Records) GetReserved(ctx context.Context, name string) (value []byte, revision uint64, err error) {
	if err := r.checkReserved(name); err != nil {
		return nil, 0, err
	}
	return r.bucket.getRaw(ctx, reservedKind, name)
}

// ReservedWritten returns when a reserved key was written, or its delete marker, by the clock of the leader of then. A
// stream that was put back keeps that time. Zero if there is nothing.
func (r *Records) ReservedWritten(ctx context.Context, name string) (time.Time, error) {
	if err := r.checkReserved(name); err != nil {
		return time.Time{}, err
	}
	last, err := r.bucket.last(ctx, name)
	if err != nil || last == nil {
		return time.Time{}, err
	}
	return last.Created, nil
}

// PutReserved writes a reserved key if it is at this revision; 0 means that there must be none. It returns the new
// revision. IsConflict if the key is at another one.
func (r *Records) PutReserved(ctx context.Context, name string, value []byte, revision uint64) (uint64, error) {
	return r.PutReservedFor(ctx, name, value, revision, 0)
}

// PutReservedFor is PutReserved of a key that the server removes after ttl, which is whole seconds, unless it is
// written again. Zero is never.
func (r *Records) PutReservedFor(
	ctx context.Context, name string, value []byte, revision uint64, ttl time.Duration,
) (uint64, error) {
	if err := r.checkReserved(name); err != nil {
		return 0, err
	}
	f, err := r.fenceOf(name)
	if err != nil {
		return 0, err
	}
	w := write{key: name, value: value, expected: revision, fence: f}
	if ttl > 0 && r.bucket.markerTTL.Load() == 0 {
		return 0, newInvalid(reservedKind, r.bucket.name, name, "ttl", "the bucket keeps no key for a time of its "+
			"own: allow it (nats stream edit "+r.bucket.stream+" --allow-msg-ttl), which needs nats-server 2.11 or "+
			"newer, and start this process anew")
	}
	if ttl > 0 {
		w.lasts.ttl = strconv.Itoa(int(ttl / time.Second))
	}
	return r.bucket.putRaw(ctx, reservedKind, w, r.limit)
}

// ReservedNames returns the reserved keys below a prefix that ends with a dot, as the leader of the stream has them, in
// no order. Some may hold nothing but the marker of a delete.
func (r *Records) ReservedNames(ctx context.Context, prefix string) ([]string, error) {
	info, err := r.bucket.info(ctx, prefix+">")
	if err != nil {
		return nil, err
	}
	return info.Keys, nil
}

// ReservedInformer returns a new cache of the reserved keys below a prefix that ends with a dot. See ReservedOf.
// onError is as in natsinformer.Config.
func (r *Records) ReservedInformer(prefix string, onError func(error)) (natsinformer.Informer, error) {
	return natsinformer.New(r.js, natsinformer.Config{
		Bucket: r.bucket.name, Filter: prefix + ">", Decode: decodeReserved, CompareInterval: r.cfg.CompareInterval,
		OnError: onError, Reported: func() bool { return onError != nil },
	})
}

// ReservedOf returns what an event handler of a ReservedInformer was given. Of a key that was deleted the value is nil,
// and the revision that of the delete. The value must not be modified.
func ReservedOf(obj any, deleted bool) (name string, revision uint64, value []byte, ok bool) {
	if unknown, gone := obj.(cache.DeletedFinalStateUnknown); gone {
		obj = unknown.Obj
	}
	o, ok := obj.(*reservedObject)
	if !ok {
		return "", 0, nil, false
	}
	if !deleted {
		return o.Name, o.revision, o.value, true
	}
	// The informer passes the last object with the revision of the delete.
	if revision, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err == nil {
		return o.Name, revision, nil, true
	}
	return o.Name, o.revision, nil, true
}

// DeleteReserved removes a reserved key if it is at this revision. IsConflict if it is at another one, IsNotFound if
// there is none.
func (r *Records) DeleteReserved(ctx context.Context, name string, revision uint64) error {
	if err := r.checkReserved(name); err != nil {
		return err
	}
	f, err := r.fenceOf(name)
	if err != nil {
		return err
	}
	_, err = r.bucket.put(ctx, write{key: name, expected: revision, op: operationPurge, fence: f})
	if conflict, ok := errors.AsType[*casError](err); ok && conflict.actual.live() == nil {
		return newNotFound(reservedKind, r.bucket.name, name)
	}
	return r.bucket.rawConflict(reservedKind, name, err)
}

func (r *Records) checkReserved(name string) error {
	want := fmt.Sprintf("want %q and then letters, digits, '-', '_', '=' and dots between them", ReservedPrefix+".")
	rest, ok := strings.CutPrefix(name, ReservedPrefix+".")
	if !ok {
		return newInvalid(reservedKind, r.bucket.name, name, "name", want)
	}
	// Config.MaxKeyLength is for the user's keys. A reserved key may contain one of them, and is longer.
	plain := keyspace{maxLength: maxKeyLengthLimit - len(ReservedPrefix+".")}
	if err := plain.check(rest); err != nil {
		return newInvalid(reservedKind, r.bucket.name, name, "name", want+": "+err.Error())
	}
	return nil
}

// reservedObject is a reserved key in the store of its informer.
type reservedObject struct {
	metav1.ObjectMeta
	revision uint64
	value    []byte
}

func (o *reservedObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (o *reservedObject) DeepCopyObject() runtime.Object {
	out := &reservedObject{revision: o.revision, value: append([]byte(nil), o.value...)}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// decodeReserved gives the value as GetReserved does.
func decodeReserved(entry natsinformer.Entry) (runtime.Object, error) {
	value := entry.Value
	if kvstream.IsReply(entry.Header, value) {
		value = []byte(kvstream.ReplyText)
	}
	return &reservedObject{
		ObjectMeta: metav1.ObjectMeta{Name: entry.Key},
		revision:   entry.Revision,
		value:      append(make([]byte, 0, len(value)), value...),
	}, nil
}
