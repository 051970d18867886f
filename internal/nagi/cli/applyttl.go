package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ttlFlags say how long the documents last that apply and create write. The zero value keeps what is left of a TTL.
type ttlFlags struct {
	ttl  time.Duration
	none bool
	flag *pflag.Flag
}

func (f *ttlFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 0, "the server removes the documents when this has passed, such as 90m or 24h")
	f.flag = flags.Lookup("ttl")
}

// registerNone is for commands that write what is there already.
func (f *ttlFlags) registerNone(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.none, "no-ttl", false, "remove the TTL of the documents")
	cmd.MarkFlagsMutuallyExclusive("ttl", "no-ttl")
}

func (f *ttlFlags) check() error {
	if !f.flag.Changed || f.ttl > 0 {
		return nil
	}
	return usage(fmt.Errorf("--ttl %v is over already: give a duration above 0, such as 24h; without --ttl what is "+
		"left of a TTL stays, and apply --no-ttl removes it", f.ttl))
}

// options are those of the writes.
func (f *ttlFlags) options() []entity.WriteOption {
	switch {
	case f.none:
		return []entity.WriteOption{entity.WithoutTTL()}
	case f.ttl > 0:
		return []entity.WriteOption{entity.WithTTL(f.ttl)}
	}
	return nil
}

// says is the result for a document that is as its file says: whether it is written again depends on its TTL.
func (f *ttlFlags) says(hasTTL bool) string {
	switch {
	case f.ttl > 0 && hasTTL:
		return "renewed"
	case f.ttl > 0, f.none && hasTTL:
		return "configured"
	}
	return "unchanged"
}

// unchanged is the result for a document that is as its file says.
func (a *applying) unchanged(ctx context.Context, c *client, key string) (string, error) {
	if len(a.lasts.options()) == 0 {
		return a.lasts.says(false), nil
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	is, err := c.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return a.lasts.says(false), nil // it has ended since; the write finds that out
	}
	if err != nil {
		return "", err
	}
	return a.lasts.says(is.GetAnnotations()[entity.ExpiresAnnotation] != ""), nil
}

// errNoObject refuses a TTL of what can only be replaced as bytes, which takes no TTL.
var errNoObject = errors.New("what is there is no JSON object, which cannot be replaced and get a TTL at once: apply " +
	"without --ttl first, and again with it")
