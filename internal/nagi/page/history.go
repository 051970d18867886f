package page

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go/micro"
)

const (
	sampleInterval = 5 * time.Second
	// mostSamples are ten minutes of a controller.
	mostSamples = 120
)

// sample is what a controller said of itself at a time.
type sample struct {
	at    time.Time
	stats *service.Stats // nil if it did not answer
}

// controllerHistory is what is known of a controller.
type controllerHistory struct {
	name, kind string
	about      service.About
	err        error // why it did not answer last time
	replicas   int
	samples    []sample
}

// last is the last sample; its stats are nil if there is none.
func (c *controllerHistory) last() sample {
	if len(c.samples) == 0 {
		return sample{}
	}
	return c.samples[len(c.samples)-1]
}

// history keeps what controllers said in the last minutes.
type history struct {
	mu  sync.Mutex
	all []*controllerHistory // in the order of their names
	err error                // why the registry could not be read
}

// snapshot are copies that nobody changes.
func (h *history) snapshot() (all []controllerHistory, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.all {
		one := *c
		one.samples = slices.Clone(c.samples)
		all = append(all, one)
	}
	return all, h.err
}

// sample asks each controller of the registry how it is.
func (p *Page) sample(ctx context.Context) {
	found, err := p.kinds(ctx)
	if err != nil {
		p.history.failed(err)
		return
	}
	replicas := p.replicas(ctx)
	var asked []*controllerHistory
	for _, e := range found.Entries {
		for _, c := range e.Controllers {
			if !slices.ContainsFunc(asked, func(o *controllerHistory) bool { return o.name == c.Name }) {
				asked = append(asked, &controllerHistory{
					name: c.Name, kind: registry.Key(e.Kind, e.APIVersion), replicas: replicas[c.Name],
				})
			}
		}
	}
	var all sync.WaitGroup
	for _, c := range asked {
		all.Go(func() {
			stats := &service.Stats{}
			if c.err = p.ask(ctx, c.name, "stats", nil, stats); c.err != nil {
				stats = nil
			} else {
				_ = p.ask(ctx, c.name, "about", nil, &c.about)
			}
			c.samples = []sample{{time.Now(), stats}}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		p.history.keep(asked)
	}
}

// failed remembers why nothing could be asked.
func (h *history) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// keep adds the new samples to those that there are.
func (h *history) keep(asked []*controllerHistory) {
	slices.SortFunc(asked, func(a, b *controllerHistory) int { return strings.Compare(a.name, b.name) })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range asked {
		for _, before := range h.all {
			if before.name == c.name {
				c.samples = append(slices.Clone(before.samples), c.samples...)
				c.samples = c.samples[max(0, len(c.samples)-mostSamples):]
			}
		}
	}
	h.all, h.err = asked, nil
}

// replicasPatience is how long answers of replicas are waited for.
const replicasPatience = 300 * time.Millisecond

// replicas counts the processes that serve each controller, by what the services API says of them; none if the user may
// not ask that.
func (p *Page) replicas(ctx context.Context) map[string]int {
	counts := map[string]int{}
	inbox := p.cfg.Conn.NewRespInbox()
	sub, err := p.cfg.Conn.SubscribeSync(inbox)
	if err != nil {
		return counts
	}
	defer func() { _ = sub.Unsubscribe() }()
	if p.cfg.Conn.PublishRequest(micro.APIPrefix+".INFO."+service.DefaultName, inbox, nil) != nil {
		return counts
	}
	ctx, cancel := context.WithTimeout(ctx, replicasPatience)
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return counts
		}
		var info micro.Info
		if json.Unmarshal(msg.Data, &info) != nil {
			continue
		}
		served := map[string]bool{}
		for _, e := range info.Endpoints {
			served[e.Metadata["controller"]] = true
		}
		for name := range served {
			counts[name]++
		}
	}
}

// brakeBanner is a brake that is engaged, and where it is shown.
type brakeBanner struct {
	Controller, Path string
	*service.Brake
}

// brakes are those that are engaged, as the last samples say.
func (p *Page) brakes() (engaged []brakeBanner) {
	all, _ := p.history.snapshot()
	for _, c := range all {
		if s := c.last().stats; s != nil && s.Brake != nil && s.Brake.Engaged {
			b := *s.Brake
			b.Reason = printable.Text(b.Reason)
			engaged = append(engaged, brakeBanner{printable.Text(c.name), brakePath(c.name), &b})
		}
	}
	return engaged
}
