package cli

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
)

// scan calls found for each document of a kind, as it comes, until one returns an error; of a namespace if there is
// one. Keys that no document can have are left out.
func (s *session) scan(
	ctx context.Context, k *kinds.Kind, namespace string, found func(kinds.Document) error,
) error {
	cfg := k.Config()
	for d, err := range s.reader(k).List(ctx, documents.Query{Namespace: namespace, WithoutRecords: true}) {
		if err != nil {
			return err
		}
		if cfg.CheckKey(d.Key) != nil {
			continue
		}
		if err := found(d); err != nil {
			return err
		}
	}
	return nil
}
