package entity

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// Write is one message that a client is about to send to a bucket, as Config.OnWrite is told of it.
type Write struct {
	Kind   string // of the entities
	Bucket string
	Key    string // client-go's
	// Operation is "put", "delete" or "purge".
	Operation string
	// Record says that the message goes to the status bucket.
	Record bool
}

// Bounds of what Config.OnWrite may add to a message.
const (
	mostHeaders     = 4
	longestHeader   = 64  // a name
	longestHeaderOf = 512 // a value
)

// writeHook calls Config.OnWrite for the writes of one bucket. What the callback does wrong is logged once, and the
// message is sent without its headers.
type writeHook struct {
	call   func(ctx context.Context, w Write) (nats.Header, func(error))
	about  Write // what all writes of the bucket have in common
	keys   keyspace
	most   int // bytes of value and added headers together
	failed sync.Once
}

// newWriteHook returns nil for a client without the callback. most is what fits a message beside our own headers.
func newWriteHook(cfg Config, keys keyspace, bucket string, most int) *writeHook {
	if cfg.OnWrite == nil {
		return nil
	}
	return &writeHook{
		call: cfg.OnWrite, keys: keys, most: most,
		about: Write{Kind: cfg.Kind, Bucket: bucket, Record: bucket == cfg.StatusBucket},
	}
}

func nothingToDo(error) {}

// begin adds to w the headers that the callback wants. done must be called with what came of the write.
func (h *writeHook) begin(ctx context.Context, w *write) (done func(error)) {
	if h == nil || strings.HasPrefix(w.key, ReservedPrefix) {
		return nothingToDo
	}
	about := h.about
	about.Key, about.Operation = h.keys.display(w.key), "put"
	switch w.op {
	case operationDelete:
		about.Operation = "delete"
	case operationPurge:
		about.Operation = "purge"
	}
	var header nats.Header
	var end func(error)
	h.guarded(ctx, func() { header, end = h.call(ctx, about) })
	if err := checkHeaders(header); err != nil {
		h.complain(ctx, err)
	} else if len(header) > 0 && len(w.value)+sizeOf(header) <= h.most {
		w.header = header
	}
	if end == nil {
		return nothingToDo
	}
	return func(err error) { h.guarded(ctx, func() { end(err) }) }
}

func (h *writeHook) guarded(ctx context.Context, call func()) {
	defer func() {
		if r := recover(); r != nil {
			h.complain(ctx, fmt.Errorf("panic: %v", r))
		}
	}()
	running.CallIn(ctx, "Config.OnWrite", call) // so that a controller says so that stands still in it
}

func (h *writeHook) complain(ctx context.Context, err error) {
	h.failed.Do(func() {
		printable.Logger(klog.FromContext(ctx)).Error(err, "Config.OnWrite failed; the message is written without its "+
			"headers, and this is logged once", "kind", h.about.Kind, "bucket", h.about.Bucket)
	})
}

// checkHeaders refuses headers that a server or a client would take for its own, or that are no text.
func checkHeaders(header nats.Header) error {
	if len(header) > mostHeaders {
		return fmt.Errorf("it returned %d headers; at most %d are written", len(header), mostHeaders)
	}
	for name, values := range header {
		if !isHeaderName(name) {
			return fmt.Errorf("it returned the header %s: a name has letters, digits and dashes, at most %d, "+
				"and is none of those of NATS, of key-value buckets or of Nagi", printable.Quote(name), longestHeader)
		}
		if len(values) != 1 || len(values[0]) > longestHeaderOf || !isHeaderValue(values[0]) {
			return fmt.Errorf("it returned the header %s: it has one value of at most %d printable characters",
				printable.Quote(name), longestHeaderOf)
		}
	}
	return nil
}

func isHeaderName(name string) bool {
	if name == "" || len(name) > longestHeader {
		return false
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if digit := c >= '0' && c <= '9'; !letter && !digit && c != '-' {
			return false
		}
	}
	lower := strings.ToLower(name)
	for _, prefix := range [...]string{"nats-", "kv-", "nagi-"} {
		if strings.HasPrefix(lower, prefix) {
			return false
		}
	}
	return lower != "status" && lower != "description"
}

// isHeaderValue reports whether a value comes back as it was sent: printable, and no space around it.
func isHeaderValue(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return strings.TrimSpace(value) == value
}

// sizeOf is what headers take on the wire.
func sizeOf(header nats.Header) (bytes int) {
	for name, values := range header {
		bytes += len(name) + len(values[0]) + len(": \r\n")
	}
	return bytes
}
