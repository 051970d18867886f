package natsinformer

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/api/meta"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// item is one message of the stream on its way into the store.
type item struct {
	key     string
	seq     uint64
	created int64
	header  nats.Header
	value   []byte
	reason  DeleteReason // "" for a value

	decode bool // the value is needed
	object kruntime.Object
	err    error // why it did not decode
}

func (it *item) entry() Entry {
	return Entry{
		Key: it.key, Revision: it.seq, Created: time.Unix(0, it.created).UTC(), Header: it.header, Value: it.value,
	}
}

// decodeChunk is how many items a goroutine takes at a time; fewer than two chunks are not worth a second goroutine.
const decodeChunk = 32

// decodeAll decodes the items that need it: a few in the calling goroutine, because a single change must be quick, and
// a backlog with all processors.
func (src *source) decodeAll(items []item) {
	needed := 0
	for i := range items {
		if items[i].decode {
			needed++
		}
	}
	workers := min(runtime.GOMAXPROCS(0), needed/decodeChunk)
	if workers < 2 {
		src.decodeRange(items)
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			to := int(next.Add(decodeChunk))
			from := to - decodeChunk
			if from >= len(items) {
				return
			}
			src.decodeRange(items[from:min(to, len(items))])
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

func (src *source) decodeRange(items []item) {
	for i := range items {
		if it := &items[i]; it.decode {
			it.object, it.err = src.decodeOne(it)
		}
	}
}

func (src *source) decodeOne(it *item) (object kruntime.Object, err error) {
	defer func() {
		if r := recover(); r != nil {
			object, err = nil, fmt.Errorf("decoder panicked: %v", r)
		}
		err = printable.Error(err) // it is kept, and shown to others than who wrote the entry
	}()
	object, err = src.cfg.Decode(it.entry())
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("decoder returned no object")
	}
	if inStore(object) == nil {
		src.divided.Store(true)
		return object, nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("decoder returned %T: %w", object, err)
	}
	if !isVersion(accessor.GetResourceVersion(), it.seq) {
		accessor.SetResourceVersion(formatVersion(it.seq))
	}
	return src.transform.Apply(object)
}
