package kubesource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDone = errors.New("done")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

// advance lets d pass on the bubble's clock, and what is due then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stillInformer is an informer that nobody starts.
func stillInformer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

// answers is a prober that answers probes only, and without a version.
type answers func(context.Context) error

func (f answers) Probe(ctx context.Context, _, _ string) (string, error) { return "", f(ctx) }

func (f answers) EachLive(context.Context, string, func(metav1.Object)) (string, error) {
	return "", errDone
}
