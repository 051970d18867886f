package recorder_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestWhatIsTakenForANATSEntity(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind, uid string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetName("x")
		if uid != "" {
			u.Object["metadata"].(map[string]any)["uid"] = uid
		}
		return u
	}
	for _, c := range []struct {
		name   string
		object runtime.Object
		isNATS bool
	}{
		{"registered type", website("", "x"), true},
		{"registered kind, custom", object("example.com/v1", "Website", ""), true},
		{"registered kind, custom, whose document carries a UID", object("example.com/v1", "Website", "1"), true},
		{"registered kind without apiVersion", &corev1.ObjectReference{Kind: "Website", Name: "x"}, true},
		{"registered kind that is also Kubernetes' own, no UID", object("v1", "Service", ""), true},
		{"registered kind that is also Kubernetes' own, live", object("v1", "Service", "1"), false},
		{"typed, registered as a kind, live",
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "1"}}, false},
		{"Kubernetes' own, not created yet", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false},
		{"reference to Kubernetes' own", &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "x"}, false},
		{"custom resource, live", object("example.com/v1", "Other", "1"), false},
		{"not registered, no UID", object("example.com/v1", "Other", ""), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder(t, recorder.Config{Scheme: scheme.Scheme})
			rec.RegisterKind("Service")
			rec.Event(c.object, corev1.EventTypeNormal, "R", "m")
			s := rec.Stats()
			if s.NATS.Recorded+s.Kubernetes.Recorded != 1 || (s.NATS.Recorded == 1) != c.isNATS {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestWithoutASchemeWhatIsNotRegisteredIsToldByItsUID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		object runtime.Object
		isNATS bool
	}{
		{"registered, with a UID", &corev1.ObjectReference{Kind: "Website", Name: "x", UID: "1"}, true},
		{"not registered, live", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "1"}}, false},
		{"not registered, no UID", &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "x"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder(t, recorder.Config{})
			rec.Event(c.object, corev1.EventTypeNormal, "R", "m")
			s := rec.Stats()
			if s.NATS.Recorded+s.Kubernetes.Recorded != 1 || (s.NATS.Recorded == 1) != c.isNATS {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestIsNATSOverridesTheRule(t *testing.T) {
	t.Parallel()
	rec := newRecorder(t, recorder.Config{IsNATS: func(runtime.Object) bool { return false }})
	rec.Event(website("", "x"), corev1.EventTypeNormal, "R", "m")
	if s := rec.Stats(); s.Kubernetes.Recorded != 1 {
		t.Errorf("%+v", s)
	}
}

// generic stands for entities like entity.Object[Spec, Status].
type generic[S any] struct{ Website }

func (g *generic[S]) DeepCopyObject() runtime.Object { return &generic[S]{} }

func TestTheKindOfObjectsWithoutTypeMeta(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		rec.RegisterKind("Page", &generic[int]{})
		for name, object := range map[string]runtime.Object{
			"registered":   &generic[int]{*website("", "registered")},
			"unregistered": &generic[string]{*website("", "unregistered")},
		} {
			rec.Event(object, corev1.EventTypeNormal, "R", name)
		}
		flush(t, rec)
		for kind, name := range map[string]string{"Page": "registered", "generic": "unregistered"} {
			if events := list(t, rec, kind, ""); len(events) != 1 || events[0].InvolvedObject.Name != name {
				t.Errorf("%s: %+v", kind, events)
			}
		}
	})
}

func TestEachKeyHasItsOwnEventsWhateverItIsCalled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		keys := []string{
			"a", "a.b", "a.b.c", "a/b2", "A", "_", "a=b", "a-b", "ns/a.b", "ns/a", "1.2.3",
			"with space", "star*", "more>", "per%cent", ".lead", "trail.", "dou..ble", "ünï", "line\nbreak", "*", ">",
			"$KV.b.x",
			strings.Repeat("long", 2000), strings.Repeat("long", 1999) + "lonG", strings.Repeat("a.", 300) + "b",
		}
		for _, key := range keys {
			namespace, name, ok := strings.Cut(key, "/")
			if !ok {
				namespace, name = "", key
			}
			rec.Event(website(namespace, name), corev1.EventTypeNormal, "R", key)
		}
		flush(t, rec)
		for _, key := range keys {
			if events := list(t, rec, "Website", key); len(events) != 1 || events[0].Message != printable.Message(key) {
				t.Errorf("key %.40q: %d events", key, len(events))
			}
		}
		if events := list(t, rec, "", ""); len(events) != len(keys) {
			t.Errorf("%d events altogether, want %d", len(events), len(keys))
		}
		if events := list(t, rec, "Web", ""); len(events) != 0 {
			t.Errorf("of another kind: %d", len(events))
		}
	})
}

func TestSubjectsAreValidAndDistinctForAnyKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// A few characters that matter, often repeated, find collisions sooner than any text.
		any := rapid.OneOf(rapid.StringMatching(`[ab.%*> E2]{1,8}`), rapid.String())
		a, b := any.Draw(t, "a"), any.Draw(t, "b")
		if a == "" || b == "" || strings.Contains(a+b, "/") {
			return
		}
		subject := recorder.Subject("", "K", a)
		if (subject == recorder.Subject("", "K", b)) != (a == b) {
			t.Fatalf("%q and %q share %q", a, b, subject)
		}
		tokens := strings.Split(subject, ".")
		for i, token := range tokens[4 : len(tokens)-1] {
			if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
				t.Fatalf("token %d of %q", i, subject)
			}
		}
	})
}

func TestAKindIsOneTokenWhateverItIsCalled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Website", "website.example.com", "*", ">", "a b", ".", "Ünï"} {
		subject := recorder.Subject("", kind, "a")
		if strings.Count(subject, ".") != 5 || strings.ContainsAny(subject, "> ") || strings.Count(subject, "*") != 2 {
			t.Errorf("%q: %q", kind, subject)
		}
	}
}

func TestOneSubscriptionPerKindTypeAndNamespace(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, srv, _ := start(t, recorder.Config{})
		nc, err := nats.Connect(srv.URL(), natstest.Dialer())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		want := map[string]int{
			"nagi.events.>":                            4,
			"nagi.events.*.Warning.>":                  1,
			recorder.Subject("", "Website", ""):        3,
			"nagi.events.Website.*.shop.>":             2,
			recorder.Subject("", "Website", "shop/a"):  1,
			recorder.Subject("", "Website", "shop"):    0,
			recorder.Subject("", "", "shop/a"):         2,
			recorder.Subject("other", "Website", ""):   0,
			recorder.Subject("", "Website", "shop/zz"): 0,
		}
		subs := map[string]*nats.Subscription{}
		for filter := range want {
			if subs[filter], err = nc.SubscribeSync(filter); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		rec.RegisterKind("Page")
		rec.Event(website("shop", "a"), corev1.EventTypeNormal, "R", "m")
		rec.Event(website("shop", "b"), corev1.EventTypeWarning, "R", "m")
		rec.Event(website("blog", "a"), corev1.EventTypeNormal, "R", "m")
		rec.Event(&corev1.ObjectReference{Kind: "Page", Namespace: "shop", Name: "a"}, corev1.EventTypeNormal, "R", "m")
		flush(t, rec)
		synctest.Wait() // the server may acknowledge an event before it hands it to its other subscribers
		for filter, n := range want {
			if got, _, err := subs[filter].Pending(); err != nil || got != n {
				t.Error(fmt.Sprintf("%s: %d messages, want %d", filter, got, n), err)
			}
		}
	})
}
