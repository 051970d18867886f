package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
)

// kubeHost is the engine as Kubernetes sources see it.
type kubeHost struct{ *Engine }

var _ kubesource.Host = kubeHost{}

// SourceChanged implements kubesource.Host.
func (h kubeHost) SourceChanged(ctx context.Context, s source.Source) { h.SourceHealth(ctx, s) }

// Answered implements kubesource.Host.
func (h kubeHost) Answered(server kubeapi.Server) { h.answered(server) }

// Unlisted implements kubesource.Host.
func (h kubeHost) Unlisted() { h.stats.Unlisted.Add(1) }

// Stopping implements kubesource.Host.
func (h kubeHost) Stopping() bool { return h.leadership.stopping.Load() }

// unansweredBy returns which API server did not answer a request of this attempt, or has an informer that is behind;
// nil if the error is another. When that is over the key is due at once, with its failures forgotten: an outage of an
// hour would cost it minutes more.
func (e *Engine) unansweredBy(err error) *keytable.Unanswered {
	if !kubeapi.AwaitsServer(err) {
		return nil
	}
	by := &keytable.Unanswered{}
	if server := kubeapi.UnansweredBy(err); kubesource.HasServer(e.sources.Group(), server) {
		by.Server = server
	}
	return by
}

// answered makes the keys due that failed while an API server was away, and forgets those failures. A server that has
// just started also refuses everybody but administrators, until it has read who may do what.
func (e *Engine) answered(server kubeapi.Server) {
	concerns := func(s *keytable.State) bool {
		return s.Unanswered != nil && (s.Unanswered.Server == 0 || s.Unanswered.Server == server)
	}
	for _, key := range e.keys.Where(concerns) {
		resumes := false
		e.keys.Amend(key, func(s *keytable.State) {
			if resumes = concerns(s); resumes {
				s.Unanswered, s.Failures = nil, 0
			}
		})
		if resumes {
			e.resumeKey(key)
		}
	}
}

// KubeHost is the engine as Kubernetes sources see it, and how many sources it has had so far.
func (e *Engine) KubeHost() (host kubesource.Host, number int) { return kubeHost{e}, e.sources.Made() }
