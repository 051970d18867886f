package kubesource

import (
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/source"
)

// served is a source that says when its API server answers again.
type served interface{ Server() kubeapi.Server }

// Without one of these a source would lack it, and nothing would say so.
var (
	_ source.Named  = (*Source)(nil)
	_ source.Caused = (*Source)(nil)
	_ source.Asker  = (*Source)(nil)
	_ served        = (*Source)(nil)
)

// HasServer reports whether one of the sources will say when the API server answers again.
func HasServer(sources source.Group, server kubeapi.Server) bool {
	for _, s := range sources {
		if s, ok := s.(served); ok && s.Server() == server {
			return true
		}
	}
	return false
}
