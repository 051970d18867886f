package cli

import (
	"context"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/spf13/cobra"
)

// The bounds of what is completed: whoever presses a key does not wait, and reads no thousand lines.
const (
	mostCompleted  = 200
	completeWithin = 2 * time.Second
)

// completeTargets completes "KIND", "KIND KEY…" and "KIND/KEY…", and with --bucket "KEY…".
func (t *tool) completeTargets(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if t.plain.Bucket == "" && len(args) == 0 && !strings.Contains(typed, "/") {
		all, directive := t.completeKinds(cmd, args, typed)
		return all, directive
	}
	return t.completeKeys(cmd, args, typed)
}

// completeTarget is completeTargets for commands that take one.
func (t *tool) completeTarget(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	most := 1 // KIND KEY
	if t.plain.Bucket != "" {
		most = 0
	}
	if len(args) > most || len(args) > 0 && strings.Contains(args[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.completeTargets(cmd, args, typed)
}

// completeKeys completes keys of a kind: those of args[0], or of the KIND in "KIND/KEY". With -n keys are without the
// namespace.
func (t *tool) completeKeys(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if t.flags.Complete() != nil {
		return nil, none
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var k *kinds.Kind
	before, prefix := "", typed
	if t.plain.Bucket != "" {
		if k, err = s.ofBucket(ctx); err != nil {
			return nil, none
		}
	} else {
		name := ""
		if len(args) > 0 && !strings.Contains(args[0], "/") {
			name = args[0]
		} else {
			name, prefix, _ = strings.Cut(typed, "/")
			before = name + "/"
		}
		if k, err = s.kind(ctx, name); err != nil {
			return nil, none
		}
	}
	namespace := ""
	if f := cmd.Flag("namespace"); f != nil && k.Namespaced {
		namespace = f.Value.String()
	}
	var keys []string
	for _, key := range s.keysWith(ctx, k, namespace, prefix) {
		keys = append(keys, before+key)
	}
	return keys, none
}

// keysWith are the first keys that begin with a prefix, as far as they can be told before the context ends. With a
// namespace they, and the prefix, are without it.
func (s *session) keysWith(ctx context.Context, k *kinds.Kind, namespace, prefix string) (keys []string) {
	q := documents.Query{Namespace: namespace, KeysOnly: true}
	if before, _, ok := strings.Cut(prefix, "/"); ok && k.Namespaced && namespace == "" {
		q.Namespace = before
	}
	for d, err := range s.reader(k).List(ctx, q) {
		if err != nil {
			return keys
		}
		key := d.Key
		if namespace != "" {
			key = strings.TrimPrefix(key, namespace+"/")
		}
		if cfg := k.Config(); !strings.HasPrefix(key, prefix) || cfg.CheckKey(d.Key) != nil {
			continue
		}
		if keys = append(keys, key); len(keys) == mostCompleted {
			return keys
		}
	}
	return keys
}
