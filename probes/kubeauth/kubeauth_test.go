package kubeauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/probes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// cluster answers reviews: the token of a user is its name, and who may get /metrics is said. test/e2e/kube asks a real
// one; this one counts, and fails.
type cluster struct {
	may      map[string]bool
	err      error
	whoAsked int
	last     map[string]any // the spec of the last SubjectAccessReview
}

func (c *cluster) auth() probes.Auth { return New(c.client()) }

func (c *cluster) client() dynamic.Interface {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		if c.err != nil {
			return true, nil, c.err
		}
		if a.GetResource().Resource == "tokenreviews" {
			c.whoAsked++
			token, _, _ := unstructured.NestedString(review.Object, "spec", "token")
			_, known := c.may[token]
			review.Object["status"] = map[string]any{"authenticated": known, "user": map[string]any{
				"username": token, "uid": "7", "groups": []any{"system:authenticated"},
				"extra": map[string]any{"from": []any{"a", "b"}},
			}}
			return true, review, nil
		}
		c.last, _, _ = unstructured.NestedMap(review.Object, "spec")
		user, _, _ := unstructured.NestedString(review.Object, "spec", "user")
		review.Object["status"] = map[string]any{"allowed": c.may[user]}
		return true, review, nil
	})
	return client
}

func request() *http.Request { return httptest.NewRequest(http.MethodGet, "/metrics", nil) }

// TestADecisionOfTheClusterIsBelievedForAWhile: what was allowed for a minute, what was refused for half of one. That
// the cluster does not answer is neither, and the right that is missing is named.
func TestADecisionOfTheClusterIsBelievedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{may: map[string]bool{"prometheus": true, "guest": false}}
		auth := c.auth()
		asks := func(token string, want error, reviews int) {
			t.Helper()
			before := c.whoAsked
			err := auth(request(), token)
			if !errors.Is(err, want) || (err == nil) != (want == nil) || c.whoAsked-before != reviews {
				t.Errorf("%q: %v after %d reviews, want %v after %d", token, err, c.whoAsked-before, want, reviews)
			}
		}
		asks("", probes.ErrUnauthenticated, 0)
		asks("nobody", probes.ErrUnauthenticated, 1)
		asks("guest", probes.ErrForbidden, 1)
		asks("prometheus", nil, 1)
		if got := fmt.Sprint(c.last); got != "map[extra:map[from:[a b]] groups:[system:authenticated] "+
			"nonResourceAttributes:map[path:/metrics verb:get] uid:7 user:prometheus]" {
			t.Errorf("it asked about %s", got)
		}
		c.may["guest"], c.may["nobody"], c.may["prometheus"] = true, true, false
		time.Sleep(refusedFor - time.Nanosecond)
		for _, token := range []string{"nobody", "guest"} {
			asks(token, map[string]error{"nobody": probes.ErrUnauthenticated, "guest": probes.ErrForbidden}[token], 0)
		}
		time.Sleep(time.Nanosecond)
		asks("nobody", nil, 1)
		asks("guest", nil, 1)
		time.Sleep(allowedFor - refusedFor - time.Nanosecond)
		asks("prometheus", nil, 0)
		time.Sleep(time.Nanosecond)
		c.err = errors.New("no answer")
		asks("prometheus", c.err, 0)
		c.err = apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("not you"))
		if err := auth(request(), "prometheus"); !strings.Contains(err.Error(), "system:auth-delegator") {
			t.Errorf("%v", err)
		}
		c.err = nil
		asks("prometheus", probes.ErrForbidden, 1)
	})
}

// TestTokensThatAreNoneTakeNoMemory, however many are sent, and no room of those that are allowed.
func TestTokensThatAreNoneTakeNoMemory(t *testing.T) {
	v := newReviewer(nil)
	good := question{1, 2, 3}
	v.keep(good, decision{})
	for i := range 3 * mostKept {
		v.keep(question{byte(i), byte(i >> 8)}, decision{err: probes.ErrUnauthenticated})
	}
	if n := len(v.refused); n > mostKept {
		t.Errorf("%d are kept", n)
	}
	if known, _, err := v.begin(good); !known || err != nil {
		t.Errorf("what was allowed is not known any more: %v", err)
	}
	for i := range 3 * mostKept {
		v.keep(question{byte(i), byte(i >> 8)}, decision{})
	}
	if n := len(v.allowed); n > mostKept {
		t.Errorf("%d that are allowed are kept", n)
	}
}

// TestTokensThatAreNoneDoNotKeepOutTheOthers: they are sent ten times a second, all new, and a scrape that was allowed
// before passes each time, also where the cluster has to be asked again. The API server gets few of them.
func TestTokensThatAreNoneDoNotKeepOutTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{may: map[string]bool{"prometheus": true}}
		auth := c.auth()
		if err := auth(request(), "prometheus"); err != nil {
			t.Fatal(err)
		}
		const minutes, each = 5, 600
		tooMany := 0
		for i := range minutes * each {
			err := auth(request(), fmt.Sprint("none ", i))
			if errors.Is(err, probes.ErrTooManyRequests) {
				tooMany++
			} else if !errors.Is(err, probes.ErrUnauthenticated) {
				t.Fatalf("a token that is none: %v", err)
			}
			if i%150 == 0 { // each 15 seconds
				if err := auth(request(), "prometheus"); err != nil {
					t.Fatalf("after %d tokens that are none: %v", i, err)
				}
			}
			time.Sleep(time.Minute / each)
		}
		asked := minutes*each - tooMany
		if most := int(minutes*time.Minute/newEach) + newBurst; asked > most || asked < most-newBurst {
			t.Errorf("the API server was asked about %d tokens that are none, want some %d", asked, most)
		}
		if c.whoAsked > asked+minutes+1 {
			t.Errorf("it was asked %d times", c.whoAsked)
		}
		time.Sleep(newEach)
		c.may["new"] = true
		if err := auth(request(), "new"); err != nil {
			t.Errorf("a new token, when it is over: %v", err)
		}
	})
}

// held is a cluster that does not answer until it is let.
type held struct {
	dynamic.Interface
	let chan struct{}
}

func (h held) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	<-h.let
	return h.Interface.Resource(r)
}

// TestATokenIsAskedAboutOnce by all that come with it at one time.
func TestATokenIsAskedAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{may: map[string]bool{"prometheus": true}}
		client := held{c.client(), make(chan struct{})}
		auth := New(client)
		answers := make(chan error, newBurst)
		for range newBurst {
			go func() { answers <- auth(request(), "prometheus") }()
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := auth(request().WithContext(gone), "prometheus"); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone waits on: %v", err)
		}
		close(client.let)
		for range newBurst {
			if err := <-answers; err != nil {
				t.Errorf("%v", err)
			}
		}
		if c.whoAsked != 1 {
			t.Errorf("the API server was asked %d times", c.whoAsked)
		}
	})
}
