package registry

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/typeschema"
	"github.com/nats-io/nats.go/jetstream"
)

// natsSource is what a source in NATS tells of itself.
type natsSource interface {
	source.Owned
	Config() entity.Config
	Type() reflect.Type
	JetStream() jetstream.JetStream
}

var (
	_ natsSource         = (*source.NATS[entity.IEntity])(nil)
	_ source.NeedsRights = (*publisher)(nil)
)

// describe is the entry of a controller's kind, without what is known only when it runs. The error says why there is
// no schema; the entry is fine without.
func (p *publisher) describe(primary natsSource) (Entry, error) {
	cfg := primary.Config()
	types, err := typeschema.Of(primary.Type(), typeschema.Options{
		Kind: cfg.Kind, APIVersion: cfg.APIVersion, Strict: cfg.Strict == entity.StrictRefuse,
		SecretFields: cfg.SecretFields, Source: p.Source,
	})
	self := Controller{
		Name: p.engine.Name(), StatusBucket: statusBucket(cfg), Version: cmp.Or(p.Version, version()),
	}
	if cfg.Filter != ">" {
		self.Filter = cfg.Filter
	}
	return Entry{
		SchemaVersion: SchemaVersion, Kind: cfg.Kind, APIVersion: cfg.APIVersion, Bucket: cfg.Bucket,
		StatusBucket: self.StatusBucket, Namespaced: cfg.Namespaced, DescribedBy: self.Name, Schema: types.Schema,
		SecretFields: cfg.SecretFields, Columns: p.columns(types.Columns), Controllers: []Controller{self},
	}, err
}

func statusBucket(cfg entity.Config) string {
	if cfg.StatusBucket == entity.NoStatusBucket {
		return ""
	}
	return cfg.StatusBucket
}

// columns are the user's own, or those of markers before the default ones. A marker that is no column is left out.
func (p *publisher) columns(marked []typeschema.Column) (columns []Column) {
	if len(p.Columns) > 0 {
		return p.Columns
	}
	for _, m := range marked {
		column := Column{Name: m.Name, Path: m.Path, Type: m.Type, Description: m.Description, Priority: m.Priority}
		if column.check() == nil {
			columns = append(columns, column)
		}
	}
	return append(columns, DefaultColumns()...)
}

// resources are what a controller owns, and what it watches beside its primaries.
func resources(e *engine.Engine) (owns, watches []Resource) {
	for _, s := range e.Sources()[1:] {
		r := resourceOf(s)
		if owned, ok := s.(source.Owned); ok && owned.Owns() {
			owns = append(owns, r)
		} else {
			watches = append(watches, r)
		}
	}
	return sorted(owns), sorted(watches)
}

func sorted(resources []Resource) []Resource {
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(resources)
}

func resourceOf(s source.Source) Resource {
	name := s.String()
	if _, rest, ok := strings.Cut(name, " "); ok { // after its role
		name = rest
	}
	switch s := s.(type) {
	case natsSource:
		cfg := s.Config()
		return Resource{
			In: InNATS, Kind: cfg.Kind, APIVersion: cfg.APIVersion, Bucket: cfg.Bucket, StatusBucket: statusBucket(cfg),
		}
	case *kubesource.Source:
		if gvr, _, ok := s.Access(); ok {
			return Resource{In: InKubernetes, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource}
		}
		name, _, _ = strings.Cut(name, " (informer ")
		return Resource{In: InKubernetes, Name: name}
	case *apisource.Source:
		return Resource{In: InExternal, Kind: name}
	}
	return Resource{Name: s.String()}
}

// version is that of the main module of this binary; "" if it was not set.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}
