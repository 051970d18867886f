package natstest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestAnErrorOfAKubernetesLibraryTakesNoTime, though another test has reported one at a later time.
func TestAnErrorOfAKubernetesLibraryTakesNoTime(t *testing.T) {
	utilruntime.HandleError(errors.New("in real time"))
	natstest.Test(t, func(t *testing.T) {
		began := time.Now()
		utilruntime.HandleErrorWithContext(t.Context(), errors.New("in virtual time"), "Told")
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}
