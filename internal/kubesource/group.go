package kubesource

import (
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/source"
)

// HasServer reports whether one of the sources will say when the API server answers again.
func HasServer(sources source.Group, server kubeapi.Server) bool {
	for _, s := range sources {
		if s, ok := s.(interface{ Server() kubeapi.Server }); ok && s.Server() == server {
			return true
		}
	}
	return false
}
