package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/kinds"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// scan calls found for each document of a kind, as it comes, until one returns an error; of a namespace if there is
// one. Keys that no document can have are left out.
func (s *session) scan(
	ctx context.Context, k *kinds.Kind, namespace string, found func(kinds.Document) error, opts ...jetstream.WatchOpt,
) error {
	open, cancel := s.within(ctx)
	defer cancel()
	kv, err := s.js.KeyValue(open, k.Bucket)
	if err != nil {
		return err
	}
	filter := jetstream.AllKeys
	if namespace != "" {
		filter = namespace + "." + jetstream.AllKeys
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := kv.Watch(ctx, filter, append(opts, jetstream.IgnoreDeletes())...)
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	cfg := k.Config()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-w.Updates():
			if e == nil {
				return ctx.Err()
			}
			key := e.Key()
			if k.Namespaced {
				key = strings.Replace(key, ".", "/", 1)
			}
			if cfg.CheckKey(key) != nil {
				continue
			}
			if err := found(kinds.Document{Key: key, Revision: e.Revision(), Value: e.Value()}); err != nil {
				return err
			}
		}
	}
}

// mostCompleted is how many keys a completion offers.
const mostCompleted = 500

// completeTargets completes KIND, and keys after "KIND/" and "KIND ".
func (t *tool) completeTargets(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	kind, prefix := t.plain.Bucket, ""
	if kind == "" && len(args) > 0 && !strings.Contains(args[0], "/") {
		kind = args[0]
	} else if before, _, isKey := strings.Cut(typed, "/"); kind == "" && isKey {
		kind, prefix = before, before+"/"
	}
	if kind == "" {
		names, directive := t.completeKinds(cmd, nil, typed)
		for i := range names {
			names[i] += "/"
		}
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
	const none = cobra.ShellCompDirectiveNoFileComp
	if t.flags.Complete() != nil {
		return nil, none
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	k := t.plain.Kind()
	if t.plain.Bucket == "" {
		if k, err = s.kind(cmd.Context(), kind); err != nil {
			return nil, none
		}
	}
	var keys []string
	ctx, cancel := s.within(cmd.Context())
	defer cancel()
	_ = s.scan(ctx, k, "", func(d kinds.Document) error {
		if len(keys) < mostCompleted && strings.HasPrefix(prefix+d.Key, typed) {
			keys = append(keys, prefix+d.Key)
		}
		return nil
	}, jetstream.MetaOnly())
	slices.Sort(keys)
	return keys, none
}
