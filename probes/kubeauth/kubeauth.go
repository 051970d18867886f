// Package kubeauth lets those ask a probes.Server who may by the rules of a Kubernetes cluster, as
// filters.WithAuthenticationAndAuthorization of controller-runtime does. A TokenReview says whose the bearer token of
// a request is, and a SubjectAccessReview whether that user may do with the path what the request does:
//
//	config.QPS, config.Burst = 20, 40           // config is in a pod that of rest.InClusterConfig
//	client, err := dynamic.NewForConfig(config) // of its own
//	server := &probes.Server{
//		Address: "0.0.0.0:8443", Handlers: handlers, Auth: kubeauth.New(client),
//		TLS: &probes.TLS{Cert: "/certs/tls.crt", Key: "/certs/tls.key"},
//	}
//
// The service account of the process needs the ClusterRole system:auth-delegator, which clusters have. Who asks, such
// as that of Prometheus, needs one that names the path:
//
//	kind: ClusterRole
//	rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
//
// What was allowed is believed for a minute, and what was refused for half of one. While the API server does not
// answer, other requests get status 503.
//
// Give it a client of its own, with QPS and Burst set. Those of client-go's default, 5 and 10, are shared by all that a
// client does: where a controller's writes use them up, a scrape waits for its turn, and gets status 503.
//
// Anybody who reaches the port can send tokens. So two new ones a second are asked about, and five at once; the others
// get status 429. A token that was allowed is no new one, and needs no such turn, also when it has to be asked about
// again. A new token of who may ask waits among the others as long as they keep coming: let only those reach the port
// who are to, by a NetworkPolicy for instance.
package kubeauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/probes"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	allowedFor = time.Minute
	refusedFor = 30 * time.Second
	// timeout is how long an answer of the API server is waited for. Prometheus waits ten seconds for its scrape.
	timeout = 5 * time.Second
	// mostKept is how many decisions are kept of each sort: anybody can send tokens that are none.
	mostKept = 1000
	// newEach is how often a new question is asked, and newBurst how many at once. Such a question is two requests at
	// most, and those of others are to have room also within the 5 requests a second of client-go's default.
	newEach  = time.Second / 2
	newBurst = 5
)

// New returns an Auth that asks the API server of a client. It asks nothing yet. It may be used by several servers.
func New(client dynamic.Interface) probes.Auth {
	return newReviewer(client).auth
}

func newReviewer(client dynamic.Interface) *reviewer {
	return &reviewer{
		client: client, allowed: decisions{}, refused: decisions{}, asked: map[question]chan struct{}{},
		unknown: rate.NewLimiter(rate.Every(newEach), newBurst),
	}
}

// question is what is asked, by a hash: tokens are not kept.
type question [sha256.Size]byte

// decision is what came of a question.
type decision struct {
	err   error
	until time.Time
}

// decisions are those that are kept, also when they are believed no more.
type decisions map[question]decision

// put keeps a decision in the place of any other one, if there is no room.
func (d decisions) put(q question, one decision, lasts time.Duration) {
	for other := range d {
		if len(d) < mostKept {
			break
		}
		delete(d, other)
	}
	one.until = time.Now().Add(lasts)
	d[q] = one
}

type reviewer struct {
	client  dynamic.Interface
	unknown *rate.Limiter // of questions that were not allowed the last time

	mu sync.Mutex
	// They are apart, so that tokens that are none take no room of others.
	allowed, refused decisions
	asked            map[question]chan struct{} // under way; closed when it is over
}

func (v *reviewer) auth(r *http.Request, token string) error {
	if token == "" {
		return fmt.Errorf("%w: the bearer token of a user of the cluster is needed", probes.ErrUnauthenticated)
	}
	verb, path := strings.ToLower(r.Method), r.URL.Path
	q := question(sha256.Sum256([]byte(verb + "\n" + path + "\n" + token)))
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		known, others, err := v.begin(q)
		switch {
		case known || err != nil:
			return err
		case others == nil:
			defer v.end(q)
			now, err := v.ask(ctx, token, verb, path)
			if err != nil {
				return err
			}
			v.keep(q, now)
			return now.err
		}
		select {
		case <-others:
		case <-ctx.Done():
			return fmt.Errorf("wait for what the API server says: %w", ctx.Err())
		}
	}
}

// begin returns what is known of a question. If nothing is, and others ask it, their channel is closed when they have;
// without others the caller is to ask, and to end. It is an error if that is not its turn.
func (v *reviewer) begin(q question) (known bool, others <-chan struct{}, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	was, before := v.allowed[q]
	if before && now.Before(was.until) {
		return true, nil, nil
	}
	if no, ok := v.refused[q]; ok && now.Before(no.until) {
		return true, nil, no.err
	}
	if asked, ok := v.asked[q]; ok {
		return false, asked, nil
	}
	if !before && !v.unknown.Allow() {
		return false, nil, fmt.Errorf("%w: more new tokens come than the cluster is asked about: ask again in a second",
			probes.ErrTooManyRequests)
	}
	v.asked[q] = make(chan struct{})
	return false, nil, nil
}

// end lets those go on who wait for an answer to the question.
func (v *reviewer) end(q question) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.asked[q])
	delete(v.asked, q)
}

func (v *reviewer) keep(q question, d decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d.err != nil {
		delete(v.allowed, q)
		v.refused.put(q, d, refusedFor)
		return
	}
	delete(v.refused, q)
	v.allowed.put(q, d, allowedFor)
}

// ask returns what the API server decides, or an error if it does not.
func (v *reviewer) ask(ctx context.Context, token, verb, path string) (decision, error) {
	who := &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token},
	}
	if err := v.review(ctx, authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"), who); err != nil {
		return decision{}, err
	}
	if !who.Status.Authenticated {
		return decision{err: fmt.Errorf("%w: the cluster does not know the token", probes.ErrUnauthenticated)}, nil
	}
	user := who.Status.User
	may := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		},
	}
	for name, values := range user.Extra {
		may.Spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	if err := v.review(ctx, authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"), may); err != nil {
		return decision{}, err
	}
	if !may.Status.Allowed {
		return decision{err: fmt.Errorf("%w: user %q may not %s %s: give it a ClusterRole with this verb and "+
			"nonResourceURL", probes.ErrForbidden, user.Username, verb, path)}, nil
	}
	return decision{}, nil
}

// review has the API server complete a review.
func (v *reviewer) review(ctx context.Context, resource schema.GroupVersionResource, review any) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return err
	}
	answer, err := v.client.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: bind the ClusterRole system:auth-delegator to the service account of this process", err)
	}
	if err != nil {
		return fmt.Errorf("ask the API server (%s): %w", resource.Resource, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, review)
}
