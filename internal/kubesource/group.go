package kubesource

import (
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// HasServer reports whether one of the sources will say when the API server answers again.
func HasServer(sources source.Group, server kubeerrors.Server) bool {
	for _, s := range sources {
		if s, ok := s.(interface{ Server() kubeerrors.Server }); ok && s.Server() == server {
			return true
		}
	}
	return false
}

// nameSource is a source in which somebody else's object may have the name that a primary wants.
type nameSource interface {
	// AwaitName resumes a primary when somebody else's object is gone; ok is false if the source is over another
	// informer.
	AwaitName(informer cache.SharedIndexInformer, object, primary string) (news, ok bool)
	// ForgetNames forgets all names that a primary waits for.
	ForgetNames(primary string)
}

// AwaitName has a primary wait for somebody's object to go. If that is news it has to look at the object once more: it
// may have gone before, and no event will tell.
func AwaitName(
	sources source.Group, informer cache.SharedIndexInformer, object, primary string,
) (news bool) {
	for _, s := range sources {
		if s, ok := s.(nameSource); ok {
			if news, ok := s.AwaitName(informer, object, primary); ok {
				return news
			}
		}
	}
	return false
}

// ForgetNames is for a primary that is gone, or is tried now and will say anew which names it wants.
func ForgetNames(sources source.Group, primary string) {
	for _, s := range sources {
		if s, ok := s.(nameSource); ok {
			s.ForgetNames(primary)
		}
	}
}
