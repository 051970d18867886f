// Package setup says what a kind needs on a server: its buckets, and the rights of each role.
//
// The rule: what it says is what the controller of such a kind would print and make itself (PermissionsOf and SetUp of
// a manager), and nothing has to run for it.
package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go/jetstream"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Definition is a kind, and what its controllers do. Replicas, Storage and sizes are those of buckets that are made;
// the zero values mean 1, file and no limit.
type Definition struct {
	Kind           string `json:"kind"`
	APIVersion     string `json:"apiVersion,omitempty"`
	Bucket         string `json:"bucket"`
	StatusBucket   string `json:"statusBucket,omitempty"` // the default is bucket and "-status", "-" means none
	Namespaced     bool   `json:"namespaced,omitempty"`
	Filter         string `json:"filter,omitempty"` // of its controller; none means all keys
	Replicas       int    `json:"replicas,omitempty"`
	Storage        string `json:"storage,omitempty"` // file or memory
	MaxBytes       int64  `json:"maxBytes,omitempty"`
	StatusMaxBytes int64  `json:"statusMaxBytes,omitempty"`
	// Controller is the name of its controller, for people.
	Controller string `json:"controller,omitempty"`
	// Owns and Watches are as in the registry; see docs/kinds.md.
	Owns    []registry.Resource `json:"owns,omitempty"`
	Watches []registry.Resource `json:"watches,omitempty"`
	Options
}

// Options are what a controller does beside its reconciles.
type Options struct {
	NoRegistry bool `json:"noRegistry,omitempty"` // it does not publish its kind
	NoEvents   bool `json:"noEvents,omitempty"`   // it records no events
	NoService  bool `json:"noService,omitempty"`  // it cannot be asked
	// Prefix is that of the services API.
	Prefix string `json:"prefix,omitempty"`
}

// ReadAll reads definitions: YAML or JSON, several in one file with --- between them.
func ReadAll(from io.Reader) (all []Definition, err error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	defer func() { _ = documents.Close() }()
	buffer := make([]byte, len(data)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(buffer[:n])) == 0 {
			continue
		}
		var d Definition
		if err := yaml.UnmarshalStrict(buffer[:n], &d); err != nil {
			return nil, err
		}
		if err := d.Check(); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no definition of a kind in it")
	}
	return all, nil
}

// Check says what is missing in a definition.
func (d *Definition) Check() error {
	if d.Kind == "" || d.Bucket == "" {
		return errors.New("a definition needs kind and bucket, as in: kind: Website, bucket: websites")
	}
	switch d.Storage {
	case "", "file", "memory":
	default:
		return fmt.Errorf("storage is %q: want file or memory", d.Storage)
	}
	for _, r := range append(append([]registry.Resource(nil), d.Owns...), d.Watches...) {
		switch {
		case r.In == registry.InNATS && r.Bucket != "":
		case r.In == registry.InKubernetes && r.Resource != "" && r.Version != "":
		case r.In == registry.InExternal && r.Kind != "":
		case r.In == registry.InKubernetes && r.Name != "": // of the registry, for people
		default:
			return fmt.Errorf("what %s owns or watches is in %q: want nats with kind and bucket, kubernetes with "+
				"group, version and resource, or external with kind", d.Kind, r.In)
		}
	}
	return nil
}

// Of is the definition of a registered kind, with one of its controllers.
func Of(e *registry.Entry, c registry.Controller) Definition {
	d := Definition{
		Kind: e.Kind, APIVersion: e.APIVersion, Bucket: e.Bucket, StatusBucket: c.StatusBucket,
		Namespaced: e.Namespaced, Controller: c.Name, Owns: c.Owns, Watches: c.Watches, Filter: c.Filter,
	}
	if d.StatusBucket == "" {
		d.StatusBucket = entity.NoStatusBucket
	}
	return d
}

// Resource reads how a flag names what a kind owns or watches: KIND=BUCKET for documents in NATS,
// GROUP/VERSION/RESOURCE for objects in Kubernetes (v1/RESOURCE for those of the core), and external:KIND for what is
// behind an API.
func Resource(text string) (registry.Resource, error) {
	if kind, ok := strings.CutPrefix(text, "external:"); ok && kind != "" {
		return registry.Resource{In: registry.InExternal, Kind: kind}, nil
	}
	if kind, bucket, ok := strings.Cut(text, "="); ok && kind != "" && bucket != "" {
		return registry.Resource{In: registry.InNATS, Kind: kind, Bucket: bucket}, nil
	}
	switch parts := strings.Split(text, "/"); len(parts) {
	case 2:
		return registry.Resource{In: registry.InKubernetes, Version: parts[0], Resource: parts[1]}, nil
	case 3:
		return registry.Resource{In: registry.InKubernetes, Group: parts[0], Version: parts[1], Resource: parts[2]}, nil
	}
	return registry.Resource{}, fmt.Errorf("%q: want KIND=BUCKET, GROUP/VERSION/RESOURCE or external:KIND", text)
}

// Config is that of a client for the primaries.
func (d *Definition) Config() entity.Config {
	storage := jetstream.FileStorage
	if d.Storage == "memory" {
		storage = jetstream.MemoryStorage
	}
	return entity.Config{
		Kind: d.Kind, APIVersion: d.APIVersion, Bucket: d.Bucket, StatusBucket: d.StatusBucket,
		Namespaced: d.Namespaced, Filter: d.Filter, Replicas: d.Replicas, Storage: storage,
		MaxBytes: d.MaxBytes, StatusMaxBytes: d.StatusMaxBytes,
	}
}

// other is that of a client for what it owns or watches in NATS.
func (d *Definition) other(r registry.Resource) entity.Config {
	cfg := d.Config()
	cfg.Kind, cfg.APIVersion, cfg.Bucket, cfg.StatusBucket = r.Kind, r.APIVersion, r.Bucket, r.StatusBucket
	cfg.Filter = ""
	if cfg.Kind == "" {
		cfg.Kind = r.Bucket
	}
	if cfg.StatusBucket == "" {
		cfg.StatusBucket = entity.NoStatusBucket
	}
	return cfg
}

// kinds is the config of the registry's bucket.
func (d *Definition) kinds() entity.Config {
	cfg := d.Config()
	return entity.Config{
		Kind: "Kind", Bucket: registry.Bucket, StatusBucket: entity.NoStatusBucket, Replicas: cfg.Replicas,
		Storage: cfg.Storage, MaxBytes: cfg.MaxBytes,
	}
}

func (d *Definition) events(js jetstream.JetStream) recorder.Config {
	return recorder.Config{JetStream: js, Component: d.Controller, Replicas: d.Replicas, Storage: d.Config().Storage}
}

func (d *Definition) service() service.Config { return service.Config{Prefix: d.Prefix} }
