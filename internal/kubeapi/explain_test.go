package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	errDone  = errors.New("done")
	maps     = corev1.SchemeGroupVersion.WithResource("configmaps")
	noResult = apierrors.NewGenericServerResponse(404, "patch", maps.GroupResource(), "settings", "", 0, true)
)

func forbidden(because string) error {
	return apierrors.NewForbidden(maps.GroupResource(), "settings", errors.New(because))
}

func lost(err error) error { return &url.Error{Op: "Patch", URL: "https://server", Err: err} }

// TestOnlyWhatWasNotAnsweredMayMeanThatTheAPIServerIsAway, and not a stop or an answer.
func TestOnlyWhatWasNotAnsweredMayMeanThatTheAPIServerIsAway(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"refused":          {lost(syscall.ECONNREFUSED), true},
		"wrapped":          {fmt.Errorf("apply: %w", lost(io.ErrUnexpectedEOF)), true},
		"deadline":         {lost(context.DeadlineExceeded), true},
		"stop":             {lost(context.Canceled), false},
		"a deadline alone": {context.DeadlineExceeded, false},
		"an answer":        {apierrors.NewInternalError(errDone), false},
		"none":             {nil, false},
	} {
		if got := Unanswered(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestAMarkedErrorTellsItsServerAndIsTheErrorStill(t *testing.T) {
	err := fmt.Errorf("apply: %w", MarkUnanswered(lost(syscall.ECONNREFUSED), 7))
	if by := UnansweredBy(err); by != 7 || !Unanswered(err) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v is of server %d", err, by)
	}
	for _, err := range []error{nil, lost(syscall.ECONNREFUSED)} {
		if by := UnansweredBy(err); by != 0 {
			t.Errorf("%v is of server %d, want none", err, by)
		}
	}
}

// TestWhatACacheIsBehindOfAwaitsItsServer, and is not taken for a request that was lost.
func TestWhatACacheIsBehindOfAwaitsItsServer(t *testing.T) {
	behind := fmt.Errorf("not deleted: %w", MarkOutdated(errDone, 7))
	if by := UnansweredBy(behind); by != 7 || !AwaitsServer(behind) || Unanswered(behind) || !errors.Is(behind, errDone) {
		t.Errorf("%v is of server %d", behind, by)
	}
	if !AwaitsServer(lost(syscall.ECONNREFUSED)) || AwaitsServer(errDone) || AwaitsServer(nil) {
		t.Error("a lost request awaits a server, and nothing else does")
	}
}

// TestANamespaceThatLacksOrDoesNotBelongIsNamedAsAReason, also where the API server has a status that names no object.
func TestANamespaceThatLacksOrDoesNotBelongIsNamedAsAReason(t *testing.T) {
	ofTheServer := apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{}, "", "", 0, false)
	for _, noResult := range []error{noResult, ofTheServer} {
		for key, advice := range map[string]string{
			"settings": "give the object a namespace", "shop/settings": "take the namespace off the object",
		} {
			if err := Explain("apply", maps, key, noResult); !strings.Contains(err.Error(), advice) {
				t.Errorf("%q: it does not say %q: %v", key, advice, err)
			}
		}
	}
	if WrongPath(apierrors.NewNotFound(maps.GroupResource(), "settings")) {
		t.Error("an object that does not exist is taken for a resource that does not")
	}
}

func TestAnErrorIsExplainedAndWrapped(t *testing.T) {
	if err := Explain("read", maps, "shop/settings", nil); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	away := lost(syscall.ECONNREFUSED)
	for key, test := range map[string]struct {
		err  error
		want string
	}{
		"shop/settings": {errDone, `read deployments.apps/v1 "shop/settings": done`},
		"":              {away, "read deployments.apps/v1: " + away.Error() + " (" + Advice(away) + ")"},
	} {
		if err := Explain("read", deployments, key, test.err); err.Error() != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q, want %q", err, test.want)
		}
	}
}

// TestEachKindOfErrorHasItsAdvice, with errors as API servers and client-go make them.
func TestEachKindOfErrorHasItsAdvice(t *testing.T) {
	resource := maps.GroupResource()
	namespace := schema.GroupResource{Resource: "namespaces"}
	kind := schema.GroupKind{Kind: "ConfigMap"}
	terminating := apierrors.NewForbidden(resource, "settings", errDone)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err  error
		want string // "" is no advice
	}{
		"unknown resource":      {noResult, "install its CustomResourceDefinition"},
		"method":                {apierrors.NewMethodNotSupported(resource, "patch"), "does not allow this"},
		"namespace":             {apierrors.NewNotFound(namespace, "shop"), "create the namespace"},
		"object":                {apierrors.NewNotFound(resource, "settings"), ""},
		"namespace terminating": {terminating, "is being deleted"},
		"policy":                {forbidden("policy denied request"), "admission"},
		"webhook":               {apierrors.NewBadRequest(`webhook "x" denied the request`), "admission"},
		"rights":                {forbidden("somebody cannot patch"), "grant"},
		"credentials":           {apierrors.NewUnauthorized("who"), "credentials"},
		"invalid":               {apierrors.NewInvalid(kind, "settings", nil), "mend the field"},
		"conflict":              {apierrors.NewConflict(resource, "settings", errDone), "has changed"},
		"late":                  {lost(context.DeadlineExceeded), "in time"},
		"away":                  {lost(syscall.ECONNREFUSED), "cannot be reached"},
		"anything else":         {errDone, ""},
	} {
		got := Advice(test.err)
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: advice is %q, want %q", name, got, test.want)
		}
	}
}
