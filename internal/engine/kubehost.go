package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// kubeHost is the engine as Kubernetes sources see it.
type kubeHost struct{ *Engine }

var _ kubesource.Host = kubeHost{}

// SourceChanged implements kubesource.Host.
func (h kubeHost) SourceChanged(ctx context.Context, s source.Source) { h.SourceHealth(ctx, s) }

// Resume implements kubesource.Host.
func (h kubeHost) Resume(key string) { h.resume(queue.Item{Key: key}) }

// Answered implements kubesource.Host.
func (h kubeHost) Answered(server kubeerrors.Server) { h.answered(server) }

// Unlisted implements kubesource.Host.
func (h kubeHost) Unlisted() { h.stats.Unlisted.Add(1) }

// Stopping implements kubesource.Host.
func (h kubeHost) Stopping() bool { return h.leadership.stopping.Load() }

// unansweredBy returns which API server did not answer a request of this attempt, or has an informer that is behind;
// nil if the error is another. When that is over the key is due at once, with its failures forgotten: an outage of an
// hour would cost it minutes more.
func (e *Engine) unansweredBy(err error) *keytable.Unanswered {
	if !kubeerrors.AwaitsServer(err) {
		return nil
	}
	by := &keytable.Unanswered{}
	if server := kubeerrors.UnansweredBy(err); e.hasSourceOf(server) {
		by.Server = server
	}
	return by
}

// hasSourceOf tells whether a source will say when the API server answers again.
func (e *Engine) hasSourceOf(server kubeerrors.Server) bool {
	for _, s := range e.sources {
		if s, ok := s.(interface{ Server() kubeerrors.Server }); ok && s.Server() == server {
			return true
		}
	}
	return false
}

// answered makes the keys due that failed while an API server was away, and forgets those failures. A server that has
// just started also refuses everybody but administrators, until it has read who may do what.
func (e *Engine) answered(server kubeerrors.Server) {
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
			e.resume(queue.Item{Key: key})
		}
	}
}

// nameSource is a source in which somebody else's object may have the name that a primary wants.
type nameSource interface {
	// AwaitName resumes a primary when somebody else's object is gone; ok is false if the source is over another
	// informer.
	AwaitName(informer cache.SharedIndexInformer, object, primary string) (news, ok bool)
	// ForgetNames forgets all names that a primary waits for.
	ForgetNames(primary string)
}

// awaitName has a primary wait for somebody's object to go. If that is news it has to look at the object once more: it
// may have gone before, and no event will tell.
func (e *Engine) awaitName(informer cache.SharedIndexInformer, object, primary string) (news bool) {
	for _, s := range e.sources {
		if s, ok := s.(nameSource); ok {
			if news, ok := s.AwaitName(informer, object, primary); ok {
				return news
			}
		}
	}
	return false
}

// forgetNames is for a primary that is gone, or is tried now and will say anew which names it wants.
func (e *Engine) forgetNames(primary string) {
	for _, s := range e.sources {
		if s, ok := s.(nameSource); ok {
			s.ForgetNames(primary)
		}
	}
}

// KubeHost is the engine as Kubernetes sources see it, and how many sources it has so far.
func (e *Engine) KubeHost() (host kubesource.Host, number int) { return kubeHost{e}, len(e.sources) }
