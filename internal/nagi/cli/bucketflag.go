package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/pflag"
)

// plainFlags name a bucket instead of a kind.
type plainFlags struct {
	kinds.Plain
	controller string
	set        *pflag.FlagSet
}

func (p *plainFlags) register(flags *pflag.FlagSet) {
	p.set = flags
	flags.StringVarP(&p.Bucket, "bucket", "b", "",
		"bucket of documents, instead of KIND; it may be one that the registry does not have")
	flags.StringVar(&p.StatusBucket, "status-bucket", "",
		"with --bucket: bucket of the records, - for none (default BUCKET-status)")
	flags.BoolVar(&p.Namespaced, "namespaced", false, "with --bucket: keys are NAMESPACE/NAME")
	flags.StringVar(&p.controller, "controller", "", "the controller to ask, where the registry names none or several")
}

func (p *plainFlags) given(flag string) bool { return p.set != nil && p.set.Changed(flag) }

// ofBucket is the kind of the bucket that --bucket names: that of the registry, with its schema, secrets and
// controllers, and else a plain one. Flags that say something else than the registry are refused.
func (s *session) ofBucket(ctx context.Context) (*kinds.Kind, error) {
	if s.plain != nil {
		return s.plain, nil
	}
	found, err := s.kinds(ctx)
	if err != nil && codeOf(ctx, err) != CodeForbidden {
		return nil, err
	}
	if err != nil {
		s.t.Notef("nagi: whether the registry has bucket %s is not known, and so neither its secrets nor its schema: "+
			"%s\n", printable.Text(s.t.plain.Bucket), printable.Message(err.Error()))
		found = &registry.Kinds{}
	}
	var all []*registry.Entry
	for _, e := range found.Entries {
		if e.Bucket == s.t.plain.Bucket {
			all = append(all, e)
		}
	}
	switch len(all) {
	case 0:
		s.plain = s.t.plain.Kind()
	case 1:
		s.plain, err = s.t.plain.registered(all[0])
		return s.plain, err
	default:
		var names []string
		for _, e := range all {
			names = append(names, printable.Text(registry.Key(e.Kind, e.APIVersion)))
		}
		slices.Sort(names)
		return nil, usage(fmt.Errorf("the registry has several kinds in bucket %s: write one of %s instead of --bucket",
			printable.Text(s.t.plain.Bucket), strings.Join(names, ", ")))
	}
	return s.plain, nil
}

// registered is the kind of an entry, with the records that --status-bucket names.
func (p *plainFlags) registered(e *registry.Entry) (*kinds.Kind, error) {
	k := &kinds.Kind{Entry: e, Registered: true}
	if p.given("namespaced") && p.Namespaced != e.Namespaced {
		is := "have no namespaces"
		if e.Namespaced {
			is = "have namespaces"
		}
		return nil, usage(fmt.Errorf("bucket %s is that of %s, whose keys %s: leave --namespaced out, or write the "+
			"kind instead of --bucket", printable.Text(e.Bucket), printable.Text(k.Name()), is))
	}
	status := p.StatusBucket
	if status == "" || status == e.StatusBucket || status == entity.NoStatusBucket && e.StatusBucket == "" {
		return k, nil
	}
	kept := []string{printable.Text(e.StatusBucket)}
	for _, c := range e.Controllers {
		if c.StatusBucket == status {
			other := *e
			other.StatusBucket = status
			return &kinds.Kind{Entry: &other, Registered: true}, nil
		}
		kept = append(kept, printable.Text(c.StatusBucket))
	}
	slices.Sort(kept)
	kept = slices.DeleteFunc(slices.Compact(kept), func(name string) bool { return name == "" })
	return nil, usage(fmt.Errorf("bucket %s is that of %s, whose records are in %s: leave --status-bucket out, or "+
		"write the kind instead of --bucket", printable.Text(e.Bucket), printable.Text(k.Name()),
		strings.Join(append(kept, "no bucket")[:max(1, len(kept))], " and ")))
}

// withoutKind is what --bucket leaves of an argument: KEY, or KIND/KEY or BUCKET/KEY as the tool prints it.
func withoutKind(k *kinds.Kind, arg, namespace string) string {
	name, key, ok := strings.Cut(arg, "/")
	slashes := strings.Count(key, "/")
	inNamespace := k.Namespaced && slashes == 0 && (namespace == "" || namespace == name)
	isIt := strings.EqualFold(name, k.Bucket) || strings.EqualFold(name, k.Kind) || strings.EqualFold(name, k.Name())
	if !ok || inNamespace || !isIt {
		return arg
	}
	return key
}
