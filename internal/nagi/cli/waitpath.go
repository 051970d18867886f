package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/theory/jsonpath"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubepath "k8s.io/client-go/util/jsonpath"
)

// waitPath waits until a path finds something in a document, or a value.
func (s *session) waitPath(ctx context.Context, a target, of string) error {
	find, want, err := pathOf(of)
	if err != nil {
		return usage(err)
	}
	k, err := s.watched(a.kind)
	if err != nil {
		return err
	}
	c, err := s.client(ctx, k)
	if err != nil {
		return err
	}
	if _, err := s.existing(ctx, c, target{k, a.key}); err != nil {
		return err
	}
	news := s.news(ctx, k, a.key)
	last := "nothing"
	for {
		now, err := s.existing(ctx, c, target{k, a.key})
		var view map[string]any
		if err == nil {
			view, err = s.view(ctx, c, k, a.key, now)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			found := find(view)
			if want == nil && len(found) > 0 || want != nil && slices.Contains(found, *want) {
				return nil
			}
			for i := range found {
				found[i] = printable.Quote(found[i])
			}
			last = strings.Join(append(found, "nothing")[:max(1, len(found))], ", ")
		}
		select {
		case <-news:
		case <-time.After(time.Second): // who may not watch asks
		case <-ctx.Done():
			return notYet(ctx, fmt.Errorf("waiting for %s until jsonpath=%s: it finds %s: %w", a.String(),
				printable.Text(of), last, context.Cause(ctx)))
		}
	}
}

// view is a document with its record, without its secrets.
func (s *session) view(
	ctx context.Context, c *client, k *kinds.Kind, key string, now *current,
) (map[string]any, error) {
	d := kinds.Document{Key: key, Revision: now.revision, Value: now.value}
	if k.StatusBucket != "" {
		rec, err := c.Record(ctx, key)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil {
			d.Record, _ = json.Marshal(rec)
		}
	}
	view := k.View(d)
	k.Hide(view)
	return view, nil
}

// news tells of writes of a document and of its record, as far as the user may watch.
func (s *session) news(ctx context.Context, k *kinds.Kind, key string) <-chan struct{} {
	news := make(chan struct{}, 1)
	natsKey := key
	if k.Namespaced {
		natsKey = strings.Replace(key, "/", ".", 1)
	}
	for _, bucket := range []string{k.Bucket, k.StatusBucket} {
		if bucket == "" {
			continue
		}
		kv, err := s.js.KeyValue(ctx, bucket)
		if err != nil {
			continue
		}
		w, err := kv.Watch(ctx, natsKey, jetstream.UpdatesOnly(), jetstream.MetaOnly())
		if err != nil {
			continue
		}
		ended := make(chan struct{})
		stop := make(chan struct{})
		s.close = append(s.close, func() {
			close(stop)
			<-ended
			_ = w.Stop()
		})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				case _, open := <-w.Updates():
					if !open {
						return
					}
				}
				select {
				case news <- struct{}{}:
				default:
				}
			}
		}()
	}
	return news
}

// pathOf reads PATH[=VALUE], in the dialect of kubectl ({.a.b}) or of RFC 9535 ($.a.b).
func pathOf(of string) (find func(view map[string]any) []string, want *string, err error) {
	if strings.HasPrefix(of, "$") {
		expression, value, has := cutPath(of)
		path, err := jsonpath.Parse(expression)
		if err != nil {
			return nil, nil, fmt.Errorf("jsonpath %s: %w", printable.Quote(expression), err)
		}
		if has {
			want = &value
		}
		return func(view map[string]any) (found []string) {
			for _, v := range path.Select(view) {
				found = append(found, textOf(v))
			}
			return found
		}, want, nil
	}
	end := strings.LastIndex(of, "}")
	if !strings.HasPrefix(of, "{") || end < 0 {
		return nil, nil, fmt.Errorf("jsonpath %s: write it as '{.status.url}' or '$.status.url'", printable.Quote(of))
	}
	if value, has := strings.CutPrefix(of[end+1:], "="); has {
		want = &value
	}
	path := kubepath.New("wait").AllowMissingKeys(true)
	if err := path.Parse(of[:end+1]); err != nil {
		return nil, nil, fmt.Errorf("jsonpath %s: %w", printable.Quote(of[:end+1]), err)
	}
	return func(view map[string]any) (found []string) {
		results, _ := path.FindResults(view)
		for _, list := range results {
			for _, v := range list {
				if v.IsValid() && v.CanInterface() {
					found = append(found, textOf(v.Interface()))
				}
			}
		}
		return found
	}, want, nil
}

// cutPath cuts $.a[?(@.b=="c")].d=VALUE at the "=" that is in no brackets.
func cutPath(of string) (path, value string, has bool) {
	depth := 0
	for i, r := range of {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '=' && depth == 0:
			return of[:i], of[i+1:], true
		}
	}
	return of, "", false
}

func textOf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	text, err := manifests.JSON(v)
	if err != nil {
		return ""
	}
	return string(text)
}
