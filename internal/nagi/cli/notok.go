package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"k8s.io/apimachinery/pkg/api/meta"
)

// unwell is a key that is not well, for one of its controllers.
type unwell struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller,omitempty"`
	service.Listed
	// From says who told: the controller, or its records.
	From string `json:"from"`
}

const (
	fromController = "controller"
	fromRecords    = "records"
)

// unwellOf is what is not well in the records of a kind, or as one controller says.
type unwellOf struct {
	kind       *kinds.Kind
	controller *ask.Controller // nil if there is none to ask
	found      []unwell
	says       string // why the controller was not asked
	err        error
}

// askedAtOnce is how many controllers are asked at a time.
const askedAtOnce = 8

func (s *session) getNotOK(ctx context.Context, g *getting, args []string) error {
	switch {
	case g.watch || g.selector != "":
		return usage(errors.New("--not-ok goes with -n and -o, and not with -w and -l"))
	case !slices.Contains([]string{"table", "wide", "json", "yaml", "name"}, g.output):
		return usage(errors.New("--not-ok is printed with -o table, wide, json, yaml or name"))
	}
	parts, err := s.unwellParts(ctx, g, args)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return s.nothingToAsk(ctx)
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, askedAtOnce)
	for _, p := range parts {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			p.find(ctx, s, g.namespace)
		})
	}
	wg.Wait()
	var all []unwell
	var errs []error
	for _, p := range parts {
		if p.says != "" {
			s.t.Notef("nagi: %s\n", printable.Message(p.says))
		}
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", printable.Text(p.kind.Name()), p.err))
		}
		all = append(all, p.found...)
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if !a.Since.Equal(b.Since) {
			return !a.Since.IsZero() && (b.Since.IsZero() || a.Since.Before(b.Since))
		}
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) < 0
	})
	if err := s.showUnwell(all, g.output); err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil {
		s.t.tellNamespace(err, g.namespace)
		return err
	}
	if len(all) > 0 {
		return notSo()
	}
	s.t.Notef("All is well%s: looked at %s.\n", g.where(), s.lookedAt(ctx, parts))
	return nil
}

// unwellParts are those to ask: each controller of each kind, and the records of kinds that have none.
func (s *session) unwellParts(ctx context.Context, g *getting, args []string) (parts []*unwellOf, err error) {
	var all []*kinds.Kind
	if len(args) > 0 || s.t.plain.Bucket != "" {
		a, err := s.target(ctx, args, "")
		if err != nil {
			return nil, err
		}
		if a.key != "" {
			return nil, usage(errors.New("--not-ok is about all keys of a kind: nagi why KIND/KEY tells of one"))
		}
		if g.namespace != "" && !a.kind.Namespaced {
			return nil, hasNoNamespaces(a.kind)
		}
		all = append(all, a.kind)
	} else {
		found, err := s.kinds(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Entries {
			if g.namespace == "" || e.Namespaced {
				all = append(all, &kinds.Kind{Entry: e, Registered: true})
			}
		}
	}
	for _, k := range all {
		asked, err := s.controllers(k)
		if err != nil { // nobody looks after it
			parts = append(parts, &unwellOf{kind: k})
		}
		for _, c := range asked {
			parts = append(parts, &unwellOf{kind: k, controller: &c})
		}
	}
	return parts, nil
}

// find asks the controller, and where it does not answer reads its records.
func (p *unwellOf) find(ctx context.Context, s *session, namespace string) {
	var unasked error
	if p.controller != nil {
		unasked = p.ask(ctx, s, namespace)
		if unasked == nil {
			return
		}
		if ctx.Err() != nil {
			p.err = unasked
			return
		}
		p.says = fmt.Sprintf("%v; so %s is told by its records", unasked, p.kind.Kind)
	}
	p.found = nil
	k := p.kind
	if p.controller != nil {
		k = recordsOf(k, p.controller.Name)
	}
	for d, err := range s.reader(k).Records(ctx, documents.Query{Namespace: namespace}) {
		if denied(err) && denied(unasked) { // the right to ask is the smaller one
			p.says, p.err = "", unasked
			return
		}
		if err != nil {
			p.err = err
			return
		}
		if one, is := unwellRecord(d, time.Now()); is {
			one.Kind = p.kind.Name()
			p.found = append(p.found, one)
		}
	}
}

// recordsOf is the kind with the records that a controller keeps.
func recordsOf(k *kinds.Kind, controller string) *kinds.Kind {
	for _, c := range k.Controllers {
		if c.Name == controller && c.StatusBucket != k.StatusBucket {
			e := *k.Entry
			e.StatusBucket = c.StatusBucket
			return &kinds.Kind{Entry: &e, Registered: k.Registered}
		}
	}
	return k
}

func (p *unwellOf) ask(ctx context.Context, s *session, namespace string) error {
	// A page is as short as one answer; the context is for all pages of a controller that has very many.
	ctx, cancel := context.WithTimeout(ctx, 10*s.t.flags.Timeout)
	defer cancel()
	for one, err := range p.controller.NotOK(ctx, namespace) {
		if err != nil {
			return err
		}
		p.found = append(p.found, unwell{p.kind.Name(), p.controller.Name, one, fromController})
	}
	return nil
}

// unwellRecord tells of a record whose phase is not Synced.
func unwellRecord(d kinds.Document, now time.Time) (unwell, bool) {
	var rec entity.Record
	u := unwell{From: fromRecords, Listed: service.Listed{Key: d.Key}}
	if err := json.Unmarshal(d.Record, &rec); err != nil {
		u.Message = "its record is no JSON object of a record"
		return u, true
	}
	u.Controller = rec.Controller
	phase := rec.Phase()
	if phase == entity.PhaseSynced {
		return u, false
	}
	u.Phase = string(phase)
	if c := meta.FindStatusCondition(rec.Conditions, entity.ConditionReconciled); c != nil {
		u.Message, u.Since = c.Message, c.LastTransitionTime.Time
	} else {
		u.Since = rec.FirstSeen
	}
	if !u.Since.IsZero() {
		u.AgeSeconds = int64(now.Sub(u.Since).Seconds())
	}
	return u, true
}

func (s *session) showUnwell(all []unwell, output string) error {
	switch output {
	case "json":
		return s.t.JSON(append([]unwell{}, all...))
	case "yaml":
		return s.t.YAML(append([]unwell{}, all...))
	case "name":
		for _, u := range all {
			s.t.Printf("%s/%s\n", printable.Text(u.Kind), printable.Text(u.Key))
		}
		return nil
	}
	wide := output == "wide"
	header := []string{"kind", "key", "state", "age", "attempts", "message"}
	if wide {
		header = slices.Insert(header, 2, "controller", "phase")
	}
	table := s.t.NewTable(header...)
	for _, u := range all {
		state := cmp.Or(string(u.State), u.Phase)
		age, attempts := "", ""
		if !u.Since.IsZero() {
			age = out.Age(time.Duration(u.AgeSeconds) * time.Second)
		}
		if u.From == fromController {
			attempts = strconv.Itoa(u.Attempts)
		}
		cells := []out.Cell{{Text: u.Kind}, {Text: u.Key}, {Text: state, Tone: phaseTone(state)}, {Text: age},
			{Text: attempts}, {Text: u.Message}}
		if wide {
			cells = slices.Insert(cells, 2, out.Cell{Text: u.Controller}, out.Cell{Text: u.Phase})
		}
		if err := table.Cells(cells...); err != nil {
			return err
		}
	}
	return table.Flush()
}

// lookedAt counts kinds and their keys.
func (s *session) lookedAt(ctx context.Context, parts []*unwellOf) string {
	seen, keys := map[string]bool{}, uint64(0)
	for _, p := range parts {
		if !seen[p.kind.Name()] {
			seen[p.kind.Name()] = true
			n, err := s.reader(p.kind).Count(ctx)
			if err == nil {
				keys += n
			}
		}
	}
	return fmt.Sprintf("%s with %s", many(uint64(len(seen)), "kind"), many(keys, "key"))
}

func many(n uint64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
