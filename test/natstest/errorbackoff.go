package natstest

import (
	"reflect"
	"runtime"
	"slices"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Kubernetes libraries report errors over utilruntime.HandleError, which pauses so that no more than one is reported in
// a millisecond. It remembers the time of the last one for the whole process. In virtual time, which begins in the year
// 2000, that lies ahead: the pause would be as long as that. It is taken out before any test begins, because HandleError
// reads the handlers without a lock.
var _ = withoutErrorBackoff()

func withoutErrorBackoff() bool {
	handlers := &utilruntime.ErrorHandlers
	before := len(*handlers)
	*handlers = slices.DeleteFunc(*handlers, func(h utilruntime.ErrorHandler) bool {
		name := runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
		return strings.HasPrefix(name, "k8s.io/apimachinery/pkg/util/runtime.backoffError")
	})
	return len(*handlers) < before
}
