package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// description is all that is known of one document.
type description struct {
	Kind       string         `json:"kind"`
	Key        string         `json:"key"`
	Bucket     string         `json:"bucket"`
	Revision   uint64         `json:"revision,omitempty"` // 0 if the document is gone, or was not read
	Unread     bool           `json:"unread,omitempty"`   // the user may not read document and record
	Phase      entity.Phase   `json:"phase,omitempty"`
	Controller string         `json:"controller,omitempty"` // as the record has it
	Reconciled uint64         `json:"reconciledRevision,omitempty"`
	FirstSeen  time.Time      `json:"firstSeen,omitzero"`
	Expires    string         `json:"expires,omitempty"` // by its TTL, or never; also of one that has ended
	Owner      *ownerOf       `json:"owner,omitempty"`
	Invalid    *invalidAt     `json:"invalid,omitempty"`
	Conditions []condition    `json:"conditions,omitempty"`
	Why        []why          `json:"why,omitempty"`
	Owns       []owns         `json:"owns,omitempty"`
	Events     []corev1.Event `json:"events,omitempty"`
	Document   map[string]any `json:"document,omitempty"`
	// Notes say what could not be looked at.
	Notes []string `json:"notes,omitempty"`
}

type (
	invalidAt = entity.InvalidDocument
	condition = metav1.Condition
)

// ownerOf is whom a document names as its owner.
type ownerOf struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Instance string `json:"instance,omitempty"`
}

// why is what a controller says of a key.
type why struct {
	Controller string `json:"controller"`
	controller.Explanation
}

// owns is what a document owns in one place.
type owns struct {
	registry.Resource
	Count  int            `json:"count"`
	States map[string]int `json:"states,omitempty"` // how many are in which phase; none is for those without a record
	Keys   []string       `json:"keys,omitempty"`   // the first
	// Says tells why they were not counted.
	Says string `json:"says,omitempty"`
}

// mostOwned is how many keys of what a document owns are named, and mostEvents how many events, in each place.
const (
	mostOwned  = 10
	mostEvents = 10
)

func (t *tool) describeCommand() *cobra.Command {
	var namespace, output string
	cmd := &cobra.Command{
		Use:   "describe KIND/KEY",
		Short: "Show a document with its record, owner, events, what it owns and why it waits",
		Long: `Describe shows what is known of one document: what its controller has recorded, why it waits as its
controllers say, who owns it, what it owns in the buckets that the registry names and behind APIs, the last events, and
the document itself, without what is marked as secret. What cannot be looked at is said in the end.`,
		Example:           "  nagi describe websites/shop/home\n  nagi describe websites home -n shop -o json",
		ValidArgsFunction: t.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, a, err := t.keyed(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			d, err := s.describe(cmd.Context(), a)
			if err != nil {
				return err
			}
			return printAs(&t.Streams, output, d, func() error { return t.printDescription(d) })
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the key")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

func (s *session) describe(ctx context.Context, a target) (*description, error) {
	d := &description{Kind: a.kind.Name(), Key: a.key, Bucket: a.kind.Bucket}
	r := s.reader(a.kind)
	doc, err := r.Get(ctx, a.key)
	if denied(err) {
		return s.describeUnread(ctx, a, d, err)
	}
	if err != nil && !(apierrors.IsNotFound(err) && doc.Record != nil) {
		return nil, err
	}
	view := a.kind.View(doc)
	a.kind.Hide(view)
	d.Revision, d.Document = doc.Revision, a.kind.Object(view)
	d.record(doc, view)
	meta := kinds.Object{Object: view}
	if kind, key, ok := entity.OwnerOf(&meta); ok {
		d.Owner = &ownerOf{s.called(ctx, kind), key, entity.InstanceOf(&meta)}
	}
	s.explain(ctx, a, d)
	for _, c := range a.kind.Controllers {
		for _, resource := range c.Owns {
			d.Owns = append(d.Owns, s.owned(ctx, a, d, &c, resource))
		}
	}
	if err := s.lastEvents(ctx, a, d); err != nil {
		d.Notes = append(d.Notes, "events: "+err.Error())
	}
	return d, ctx.Err()
}

// describeUnread is for who may not read the document, and perhaps ask the controllers about its namespace.
func (s *session) describeUnread(ctx context.Context, a target, d *description, err error) (*description, error) {
	if s.explain(ctx, a, d); len(d.Why) == 0 {
		return nil, err
	}
	d.Unread, d.Notes = true, append(d.Notes, "document and record: "+err.Error())
	if err := s.lastEvents(ctx, a, d); err != nil {
		d.Notes = append(d.Notes, "events: "+err.Error())
	}
	return d, ctx.Err()
}

// record takes what the record says. Of a document that is gone it has the last one.
func (d *description) record(doc kinds.Document, view map[string]any) {
	d.Expires = doc.Expires
	if doc.Record == nil {
		return
	}
	var rec entity.Record
	if err := json.Unmarshal(doc.Record, &rec); err != nil {
		d.Notes = append(d.Notes, "the record does not decode: "+err.Error())
		return
	}
	d.Phase, d.Controller, d.Reconciled = rec.Phase(), rec.Controller, rec.ObservedRevision
	d.FirstSeen, d.Invalid, d.Conditions = rec.FirstSeen, rec.Invalid, rec.Conditions
	if doc.Revision > 0 {
		return
	}
	d.Document, d.Expires = nil, rec.DocumentExpires
	if record, ok := view["record"].(map[string]any); ok {
		d.Document, _ = record["lastDocument"].(map[string]any)
	}
}

// explain asks the controllers why.
func (s *session) explain(ctx context.Context, a target, d *description) {
	asked, err := s.controllers(a.kind)
	if err != nil {
		d.Notes = append(d.Notes, err.Error())
		return
	}
	for _, c := range asked {
		within, cancel := s.within(ctx)
		explanation, err := c.Explain(within, a.namespace(), a.key)
		cancel()
		if err != nil {
			d.Notes = append(d.Notes, err.Error())
			continue
		}
		d.Why = append(d.Why, why{c.Name, explanation})
	}
}

// owned counts what a document owns among the documents of one bucket.
func (s *session) owned(
	ctx context.Context, a target, d *description, c *registry.Controller, resource registry.Resource,
) owns {
	o := owns{Resource: resource}
	switch resource.In {
	case registry.InNATS:
	case registry.InKubernetes:
		o.Says = "in Kubernetes, which nagi tree looks at"
		return o
	default:
		o.outside(d.Why, c.Name)
		return o
	}
	k := s.kindOfResource(ctx, resource)
	r := s.reader(k)
	started, told := time.Now(), false
	o.States = map[string]int{}
	for doc, err := range r.List(ctx, documents.Query{WithoutRecords: true}) {
		if err != nil {
			o.Says = err.Error()
			return o
		}
		if !told && time.Since(started) > time.Second {
			told = true
			s.t.Notef("Looking through bucket %s for what it owns …\n", resource.Bucket)
		}
		meta := kinds.Object{Object: k.View(doc)}
		if !entity.IsOwnedBy(&meta, a.kind.Kind, a.key) {
			continue
		}
		if of := entity.InstanceOf(&meta); of != "" && c.Instance != "" && of != c.Instance {
			continue // another installation's
		}
		o.Count++
		if len(o.Keys) < mostOwned {
			o.Keys = append(o.Keys, doc.Key)
		}
		if doc.Record, err = r.Record(ctx, doc.Key); err != nil {
			o.Says = err.Error()
			return o
		}
		var rec entity.Record
		phase := "none"
		if doc.Record != nil && json.Unmarshal(doc.Record, &rec) == nil {
			phase = string(rec.Phase())
		}
		o.States[phase]++
	}
	return o
}

// kindOfResource is the kind of a resource in NATS. Where the registry does not have it, whether its keys have
// namespaces is not known, and they are shown as NATS has them.
func (s *session) kindOfResource(ctx context.Context, resource registry.Resource) *kinds.Kind {
	if found, err := s.kinds(ctx); err == nil {
		for _, e := range found.Entries {
			if e.Bucket == resource.Bucket {
				return &kinds.Kind{Entry: e, Registered: true}
			}
		}
	}
	status := cmp.Or(resource.StatusBucket, entity.NoStatusBucket)
	return kinds.Plain{Bucket: resource.Bucket, StatusBucket: status}.Kind()
}

// lastEvents reads the last events about a document. Where there is no stream of events there are none.
func (s *session) lastEvents(ctx context.Context, a target, d *description) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	all, err := recorder.List(ctx, s.js, recorder.Query{Kind: a.kind.Kind, Key: a.key})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	d.Events = all[max(0, len(all)-mostEvents):]
	return err
}

// named is how a resource is called.
func named(r registry.Resource) string {
	switch r.In {
	case registry.InNATS:
		return fmt.Sprintf("%s (bucket %s)", r.Kind, r.Bucket)
	case registry.InKubernetes:
		if r.Resource == "" {
			return r.Name
		}
		if r.Group == "" {
			return r.Resource
		}
		return r.Resource + "." + r.Group
	}
	return cmp.Or(r.Kind, r.Name)
}
