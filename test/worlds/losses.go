package worlds

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// losses are the deeds after which a stream is another one, and those after which nobody knows what was in it.
var losses = []deed{backup, backupDocs, backupRecords, sealed, noRecords, noDocs, noOwned, empty}

// restore replaces a stream by a backup.
func (w *world) restore(ctx context.Context, bucket string, after, away time.Duration) {
	var backup *natstest.Snapshot
	w.patiently("a backup of "+bucket, func(ctx context.Context) (err error) {
		backup, err = natstest.TakeSnapshot(ctx, w.nc, "KV_"+bucket)
		return err
	})
	sleep(ctx, after)
	w.aboutDocuments(bucket, func() {
		w.deleteStream(bucket)
		sleep(ctx, away)
		w.putBack(bucket, backup)
	})
}

func (w *world) deleteStream(bucket string) {
	w.patiently("deleting "+bucket, func(ctx context.Context) error {
		err := w.js.DeleteStream(ctx, "KV_"+bucket)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
	w.note("saboteur", "%s is deleted", bucket)
	if bucket == w.subject.status() {
		w.watchesAnew()
		w.holds(tenure{}) // a watch ends without a word, and what comes back may be as old as this one
	}
}

// putBack restores a stream, unless a replica has made it anew.
func (w *world) putBack(bucket string, backup *natstest.Snapshot) {
	w.patiently("restoring "+bucket, func(ctx context.Context) error {
		err := backup.Restore(ctx, w.nc)
		if err != nil && strings.Contains(err.Error(), "already") {
			w.note("saboteur", "%s is there again: %v", bucket, err)
			return nil
		}
		return err
	})
	w.note("saboteur", "%s is restored", bucket)
	if bucket == w.subject.status() {
		w.noteRevived()
	}
}

// noteRevived notes which replica led when the backup of the records was taken.
func (w *world) noteRevived() {
	w.patiently("reading the lease", func(ctx context.Context) error {
		s, err := w.js.Stream(ctx, "KV_"+w.subject.status())
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, "$KV."+w.subject.status()+"."+leaseKey)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.revived = revived{w.identity[holderOf(m.Data)], time.Now()}
		}
		return err
	})
}

// seal seals a stream, which nothing undoes: it is restored from a backup with the configuration of before.
func (w *world) seal(ctx context.Context, bucket string, lasts time.Duration) {
	config := w.configOf(bucket)
	w.mu.Lock()
	w.unsealed[bucket] = config
	w.mu.Unlock()
	w.reconfigure(bucket, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Sealed = true })
	sleep(ctx, lasts)
	var backup *natstest.Snapshot
	w.patiently("a backup of "+bucket, func(ctx context.Context) (err error) {
		if backup, err = natstest.TakeSnapshot(ctx, w.nc, "KV_"+bucket); err == nil {
			err = backup.Configure(config)
		}
		return err
	})
	w.deleteStream(bucket)
	w.putBack(bucket, backup)
}

// lose deletes a stream with all that is in it. An operator makes it anew if no replica has.
func (w *world) lose(ctx context.Context, bucket string, away time.Duration) {
	config := w.configOf(bucket)
	w.aboutDocuments(bucket, func() {
		w.deleteStream(bucket)
		sleep(ctx, away)
		w.makeAnew(bucket, config)
	})
}

// loseAll stops the server, which comes back empty. An operator makes the streams anew.
func (w *world) loseAll(ctx context.Context, away time.Duration) {
	configs := map[string]jetstream.StreamConfig{}
	for _, bucket := range w.subject.buckets() {
		configs[bucket] = w.configOf(bucket)
	}
	w.aboutDocuments(w.subject.Primaries, func() {
		w.server.Stop()
		w.holds(tenure{})
		w.watchesAnew()
		if err := os.RemoveAll(filepath.Join(w.server.StoreDir(), "jetstream")); err != nil {
			w.note("saboteur", "emptying the server: %v", err)
		}
		sleep(ctx, away)
		w.patiently("starting the server", func(context.Context) error { return w.server.Start() })
		w.note("saboteur", "the server is empty")
		w.mu.Lock()
		w.emptied = time.Now()
		w.mu.Unlock()
		for _, bucket := range w.subject.buckets() {
			w.makeAnew(bucket, configs[bucket])
		}
	})
}

// configOf is the configuration of a stream; of a sealed one that of before, for none can be made with its own.
func (w *world) configOf(bucket string) (config jetstream.StreamConfig) {
	w.patiently("reading the configuration of "+bucket, func(ctx context.Context) error {
		s, err := w.js.Stream(ctx, "KV_"+bucket)
		if err == nil {
			config = s.CachedInfo().Config
		}
		return err
	})
	if config.Sealed {
		w.mu.Lock()
		defer w.mu.Unlock()
		config = w.unsealed[bucket]
	}
	return config
}

func (w *world) makeAnew(bucket string, config jetstream.StreamConfig) {
	w.patiently("making "+bucket, func(ctx context.Context) error {
		_, err := w.js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			w.note("saboteur", "%s is there again: %v", bucket, err)
			return nil
		}
		return err
	})
	w.note("saboteur", "%s is there, and empty", bucket)
}
