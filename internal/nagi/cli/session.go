package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/conn"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// session is a connection, and what was read over it.
type session struct {
	t     *tool
	nc    *nats.Conn
	js    jetstream.JetStream
	found *registry.Kinds
	plain *kinds.Kind // that of --bucket
	close []func()
	// writers are the clients that write, by bucket.
	writers map[string]*client
}

// connect connects once.
func (t *tool) connect() (*session, error) {
	if t.session != nil {
		return t.session, nil
	}
	nc, js, err := t.flags.Connect()
	_, unconnected := errors.AsType[*conn.Unconnected](err)
	if err != nil && (!unconnected || errors.Is(err, fs.ErrNotExist)) {
		return nil, usage(err) // of flags, files, or a context
	}
	if err != nil {
		return nil, err
	}
	t.session = &session{t: t, nc: nc, js: js}
	return t.session, nil
}

func (t *tool) close() {
	if t.session == nil {
		return
	}
	for _, f := range slices.Backward(t.session.close) {
		f()
	}
	t.session.nc.Close()
	t.session = nil
}

// within is a context for one answer of a server or a controller.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.t.flags.Timeout)
}

// kinds reads the registry once.
func (s *session) kinds(ctx context.Context) (*registry.Kinds, error) {
	if s.found == nil {
		ctx, cancel := s.within(ctx)
		defer cancel()
		found, err := registry.List(ctx, s.js)
		if err != nil {
			return nil, err
		}
		s.found = &found
	}
	return s.found, nil
}

// kind finds what a user calls a kind.
func (s *session) kind(ctx context.Context, name string) (*kinds.Kind, error) {
	found, err := s.kinds(ctx)
	if err != nil {
		return nil, err
	}
	return kinds.Of(found.Entries, name)
}

// called is the name of the kind that documents, owners and events call so; what the registry does not have stays as it
// is.
func (s *session) called(ctx context.Context, kind string) string {
	found, err := s.kinds(ctx)
	if err != nil {
		return kind
	}
	k, err := kinds.Of(found.Entries, kind)
	if err != nil || k.Kind != kind {
		return kind
	}
	return k.Name()
}

// client makes a client of a kind's documents, which is closed when the command ends.
func (s *session) client(ctx context.Context, k *kinds.Kind) (*entity.Client[*kinds.Object], error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	c, err := k.Client(ctx, s.js)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, c.Close)
	return c, nil
}

// controllers are those that look after a kind; --controller names one.
func (s *session) controllers(k *kinds.Kind) (all []ask.Controller, err error) {
	if name := s.t.plain.controller; name != "" {
		return []ask.Controller{s.controller(name)}, nil
	}
	for _, c := range k.Controllers {
		all = append(all, s.controller(c.Name))
	}
	if len(all) == 0 {
		return nil, usage(fmt.Errorf("the registry names no controller of %s: --controller names one",
			printable.Quote(k.Name())))
	}
	return all, nil
}

func (s *session) controller(name string) ask.Controller {
	return ask.Controller{Conn: s.nc, Prefix: s.t.prefix, Name: name, Timeout: s.t.flags.Timeout}
}

// target is what a command is about: a kind, and perhaps a key.
type target struct {
	kind *kinds.Kind
	key  string // client-go's: "name", or "namespace/name"; "" if none was named
}

// String is its one name, which each command takes: KIND/KEY, or with --bucket, BUCKET/KEY.
func (a target) String() string {
	if a.key == "" {
		return printable.Text(a.kind.Name())
	}
	return printable.Text(a.kind.Name() + "/" + a.key)
}

// errNoKey is what a command that needs a key is missing.
var errNoKey = errors.New("a key is needed: KIND/KEY, as in websites/shop")

// target reads "KIND", "KIND/KEY" and "KIND KEY", and with --bucket "KEY", or "KIND/KEY" as well. namespace is that of
// -n.
func (s *session) target(ctx context.Context, args []string, namespace string) (a target, err error) {
	if s.t.plain.Bucket != "" {
		if a.kind, err = s.ofBucket(ctx); err != nil {
			return a, err
		}
		a.key = withoutKind(a.kind, strings.Join(args, "/"), namespace)
	} else {
		if len(args) == 0 {
			return a, usage(errors.New("a kind is needed: nagi kinds lists what there is"))
		}
		name, key, _ := strings.Cut(strings.Join(args, "/"), "/")
		if a.kind, err = s.kind(ctx, name); err != nil {
			return a, err
		}
		a.key = key
	}
	if a.key == "" {
		return a, nil
	}
	if namespace != "" {
		if !a.kind.Namespaced {
			return a, hasNoNamespaces(a.kind)
		}
		if !strings.HasPrefix(a.key, namespace+"/") {
			a.key = namespace + "/" + a.key
		}
	}
	cfg := a.kind.Config()
	if err := cfg.CheckKey(a.key); err != nil {
		return a, usage(err)
	}
	return a, nil
}

func hasNoNamespaces(k *kinds.Kind) error {
	return usage(fmt.Errorf("the keys of %s have no namespace: leave -n out", printable.Text(k.Name())))
}

// keyed is target for commands that need a key.
func (s *session) keyed(ctx context.Context, args []string, namespace string) (target, error) {
	a, err := s.target(ctx, args, namespace)
	if err == nil && a.key == "" {
		err = usage(errNoKey)
	}
	return a, err
}

// keyed connects, and reads what a command with a key is about.
func (t *tool) keyed(ctx context.Context, args []string, namespace string) (*session, target, error) {
	s, err := t.connect()
	if err != nil {
		return nil, target{}, err
	}
	a, err := s.keyed(ctx, args, namespace)
	return s, a, err
}

// completeKinds completes KIND.
func (t *tool) completeKinds(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || t.flags.Complete() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := s.kinds(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range found.Entries {
		names = append(names, e.Bucket)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
