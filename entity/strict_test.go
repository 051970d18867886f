package entity_test

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var oddDocuments = map[string]struct{ document, reason, message string }{
	"unknown":    {`{"spec":{"colour":"red"}}`, entity.ReasonUnknownMembers, `spec.colour: nobody knows it`},
	"near miss":  {`{"spec":{"titel":"t"}}`, entity.ReasonUnknownMembers, `spec.titel: nobody knows it, did you mean title?`},
	"wrong case": {`{"spec":{"Title":"t"}}`, entity.ReasonMiscasedMembers, `spec.Title: did you mean title?`},
	"in a list": {`{"spec":{"guests":[{},{"Name":"n"}]}}`, entity.ReasonMiscasedMembers,
		`spec.guests[1].Name: did you mean name?`},
	"in a map":   {`{"spec":{"staff":{"x":{"age":1}}}}`, entity.ReasonUnknownMembers, `spec.staff.x.age: nobody knows it`},
	"at the top": {`{"specs":{}}`, entity.ReasonUnknownMembers, `specs: nobody knows it, did you mean spec?`},
	"metadata":   {`{"metadata":{"zone":"eu"}}`, entity.ReasonUnknownMembers, `metadata.zone: nobody knows it`},
	"twice": {`{"spec":{"title":"a","title":"b"}}`, entity.ReasonDuplicateMembers,
		`spec.title: it is there more than once`},
	"a key twice": {`{"metadata":{"labels":{"a":"1","a":"2"}}}`, entity.ReasonDuplicateMembers,
		`metadata.labels.a: it is there more than once`},
	"twice in what takes all": {`{"spec":{"extra":{"a":[{"b":1,"b":2}]}}}`, entity.ReasonDuplicateMembers,
		`spec.extra.a[0].b: it is there more than once`},
	"no UTF-8": {"{\"spec\":{\"title\":\"\xff\"}}", entity.ReasonInvalidUTF8, `spec.title: it is no valid UTF-8`},
	"half a character": {`{"spec":{"title":"a\ud800"}}`, entity.ReasonInvalidUTF8,
		`spec.title: it has the escape of half a character`},
	"the other half":          {`{"spec":{"title":"\uDC00\ud83d"}}`, entity.ReasonInvalidUTF8, `spec.title: it has the escape of half`},
	"halves in wrong order":   {`{"spec":{"title":"\ude00\ud83d"}}`, entity.ReasonInvalidUTF8, `spec.title: it has the escape of half`},
	"half a character in any": {`{"spec":{"extra":[{"a":"\uD83Dx"}]}}`, entity.ReasonInvalidUTF8, `spec.extra[0].a: it has`},
	"half a key":              {`{"metadata":{"labels":{"\ud800":"1"}}}`, entity.ReasonInvalidUTF8, "metadata.labels.\ufffd: it has"},
	"half an unknown name": {`{"spec":{"x\ud800":"1"}}`, entity.ReasonSeveralWarnings,
		"spec.x\ufffd: it has the escape of half a character, such as \\ud800: who decodes it gets U+FFFD; "},
	"half an unknown value": {`{"spec":{"x":{"y":["\udfff"]}}}`, entity.ReasonSeveralWarnings, `spec.x: it has the escape of half`},
	"half a status":         {`{"status":{"x":"\udfff"}}`, entity.ReasonInvalidUTF8, `status: it has the escape of half`},

	"kind":      {`{"kind":"Stop"}`, entity.ReasonOtherType, `kind: it is another one than Shop`},
	"version":   {`{"apiVersion":"shops/v2"}`, entity.ReasonOtherType, `apiVersion: it is another one than shops/v1`},
	"owners":    {ownerDocument, entity.ReasonOwnerReferences, `metadata.ownerReferences: they have no effect in NATS`},
	"finalizer": {`{"metadata":{"finalizers":["f/f"]}}`, entity.ReasonFinalizers, `metadata.finalizers: finalizers have no effect`},
	"several": {`{"kind":"Stop","spec":{"Title":"a","x":1}}`, entity.ReasonSeveralWarnings,
		`kind: it is another one than Shop; spec.Title: did you mean title?; spec.x: nobody knows it`},
	"unprintable": {`{"spec":{"\u001b[31m":1}}`, entity.ReasonUnknownMembers, `spec."\x1b[31m": nobody knows it`},
	"many": {`{"a1":1,"a2":1,"a3":1,"a4":1,"a5":1,"a6":1,"a7":1,"a8":1,"a9":1,"a0":1}`, entity.ReasonUnknownMembers,
		`; and 2 more`},
}

const ownerDocument = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]}}`

var plainDocuments = map[string]string{
	"empty": `{}`,
	"full": `{"apiVersion":"shops/v1","kind":"Shop","metadata":{"name":"s","labels":{"A":"1","a":"2"},"resourceVersion":"7",` +
		`"generation":7},"spec":{"title":"\u0074","staff":{"A":{},"a":{}},"guests":[null,{"name":"g"}],"extra":{"X":1,"x":2}},` +
		`"status":{"anything":{"a":1,"a":2}}}`,
	"nothing":         `{"kind":"","apiVersion":"","metadata":{"finalizers":[],"ownerReferences":null},"spec":null,"status":null}`,
	"escaped":         `{"\u0073pec":{"titl\u0065":"t"}}`,
	"whole character": `{"spec":{"title":"\ud83d\ude00 \\ud800 \uD83D\uDE00\\\\ud800 \ue000 \\\ud83d\ude00"}}`,
}

func strictShops(t *testing.T, js jetstream.JetStream, strict entity.Strictness) *entity.Client[*Shop] {
	return newClient[*Shop](t, js, entity.Config{Kind: "Shop", APIVersion: "shops/v1", Bucket: "shops", Strict: strict})
}

func TestWhatNobodyHearsIsWarnedAbout(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := strictShops(t, js, entity.StrictWarn)
		for name, c := range oddDocuments {
			revision := put(t, js, "s", c.document)
			shop, err := client.Get(t.Context(), "s")
			must(t, err)
			got := client.DocumentWarnings("s", revision)
			if got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.message) || len(got.Message) > 1024 {
				t.Errorf("%s: got %+v, want %s: %s", name, got, c.reason, c.message)
			}
			if shop.Generation != int64(revision) {
				t.Errorf("%s: it does not count", name)
			}
		}
		for name, document := range plainDocuments {
			revision := put(t, js, "s", document)
			_, err := client.Get(t.Context(), "s")
			must(t, err)
			if got := client.DocumentWarnings("s", revision); got != nil {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	})
}

func TestOffWarnsOfNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := strictShops(t, js, entity.StrictOff)
		for name, c := range oddDocuments {
			revision := put(t, js, "s", c.document)
			_, err := client.Get(t.Context(), "s")
			must(t, err)
			if got := client.DocumentWarnings("s", revision); got != nil {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	})
}

func TestRefusedDocumentsAreInvalidAndTheLastGoodOneStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := strictShops(t, js, entity.StrictRefuse)
		start(t, client)
		good := put(t, js, "s", plainDocuments["full"])
		must(t, client.Informer().WaitKey(t.Context(), "s", good))
		for name, c := range oddDocuments {
			revision := put(t, js, "s", c.document)
			_, err := client.Get(t.Context(), "s")
			path, _, _ := strings.Cut(c.message, ":")
			if !apierrors.IsInvalid(err) || name != "many" && !strings.Contains(err.Error(), path+": ") {
				t.Errorf("%s: got %v", name, err)
			}
			must(t, client.Informer().WaitCursor(t.Context(), revision))
			_, err = client.Lister().Get("s")
			wantError(t, name, apierrors.IsInvalid, err)
			all, err := client.Lister().List(nil)
			must(t, err)
			if len(all) != 1 || all[0].Generation != int64(good) {
				t.Errorf("%s: the last good version did not stay: %v", name, all)
			}
		}
		for name, document := range plainDocuments {
			put(t, js, "s", document)
			if _, err := client.Get(t.Context(), "s"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		shop := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{Name: "n"}}}}
		wantError(t, "create with an owner reference", apierrors.IsInvalid, client.Create(t.Context(), shop))
	})
}

func TestTypesThatKnowEverythingAreLookedAtToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, shops)
		for document, want := range map[string]string{
			`{"spec":{"a":{"b":1,"b":2}}}`:        "spec.a.b: it is there more than once",
			`{"kind":"Stop"}`:                     "kind: it is another one than Shop",
			`{"metadata":{"finalizers":["f/f"]}}`: "metadata.finalizers",
			`{"Spec":{"whatever":1}}`:             "",
		} {
			revision := put(t, js, "s", document)
			_, err := client.Get(t.Context(), "s")
			must(t, err)
			got := client.DocumentWarnings("s", revision)
			if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Message, want) {
				t.Errorf("%s: got %+v, want %q", document, got, want)
			}
		}
	})
}

func TestWarningsTellNothingBelowASecret(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.SecretFields = []string{"spec.staff", "spec.guests[].name"}
		client := newClient[*Shop](t, js, cfg)
		revision := put(t, js, "s", `{"spec":{"staff":{"3cr3t":{"3cr3t":"3cr3t"}},"guests":[{"x":1}]}}`)
		_, err := client.Get(t.Context(), "s")
		must(t, err)
		got := client.DocumentWarnings("s", revision)
		if got == nil || strings.Contains(got.Message, "3cr3t") || !strings.Contains(got.Message, "spec.staff: ") ||
			!strings.Contains(got.Message, "spec.guests[0].x: nobody knows it") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAWriteOfAnotherKindIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		for _, strict := range []entity.Strictness{entity.StrictWarn, entity.StrictOff, entity.StrictRefuse} {
			client := strictShops(t, js, strict)
			put(t, js, "s", `{}`)
			shop, err := client.Get(t.Context(), "s")
			must(t, err)
			for _, other := range []metav1.TypeMeta{{Kind: "Stop"}, {Kind: "Shop", APIVersion: "shops/v2"}, {APIVersion: "v1"}} {
				shop.TypeMeta = other
				for what, err := range map[string]error{
					"update": client.Update(t.Context(), shop),
					"create": client.Create(t.Context(), &Shop{TypeMeta: other, ObjectMeta: metav1.ObjectMeta{Name: "new"}}),
				} {
					if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "another one than ") {
						t.Errorf("%v, %s of %v: %v", strict, what, other, err)
					}
				}
			}
			for _, ours := range []metav1.TypeMeta{{Kind: "Shop"}, {}, {Kind: "Shop", APIVersion: "shops/v1"}} {
				shop.TypeMeta = ours
				must(t, client.Update(t.Context(), shop))
			}
		}
	})
}

func TestAWriteThatAddsAFinalizerIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		refused := func(what string, err error) {
			t.Helper()
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the record of a primary is its finalizer") {
				t.Errorf("%s: %v", what, err)
			}
		}
		add := func(shop *Shop) *Shop { shop.Finalizers = append(shop.Finalizers, "f/new"); return shop }
		refused("create", client.Create(t.Context(), add(&Shop{ObjectMeta: metav1.ObjectMeta{Name: "s"}})))
		for _, document := range []string{`{"metadata":{},"spec":{"title":"old"}}`, `{"metadata":{"finalizers":["f/old"]},"spec":{"title":"old"}}`} {
			put(t, js, "s", document)
			for _, writer := range []*entity.Client[*Shop]{client, newClient[*Shop](t, js, shops)} {
				shop, err := client.Get(t.Context(), "s")
				must(t, err)
				refused("update", writer.Update(t.Context(), add(shop.DeepCopy())))
				shop.Spec.Title = "new"
				must(t, writer.Update(t.Context(), shop)) // those that are there already stay
			}
			refused("patch", client.Patch(t.Context(), "s", []byte(`{"metadata":{"finalizers":["f/old","f/new"]}}`)))
			must(t, client.Patch(t.Context(), "s", []byte(`{"spec":{"title":"patched"}}`)))
			wantShop(t, js, "s", strings.Replace(strings.Replace(document, "old\"}", "patched\"}", 1), `{`, `{"kind":"Shop",`, 1))
		}
		shop, err := client.Get(t.Context(), "s")
		must(t, err)
		shop.Finalizers = nil
		must(t, client.Update(t.Context(), shop))
		wantShop(t, js, "s", `{"kind":"Shop","metadata":{},"spec":{"title":"patched"}}`)
	})
}

func TestAPatchThatSaysAnotherKindIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "s", `{"spec":{"title":"old"}}`)
		wantError(t, "a patch to another kind", apierrors.IsInvalid, client.Patch(t.Context(), "s", []byte(`{"kind":"Other"}`)))
		put(t, js, "s", `{"kind":"Other","spec":{"title":"old"}}`)
		must(t, client.Patch(t.Context(), "s", []byte(`{"spec":{"title":"new"}}`)))
		must(t, client.Patch(t.Context(), "s", []byte(`{"kind":"Shop"}`)))
		must(t, client.Patch(t.Context(), "s", []byte(`{"kind":null}`)))
	})
}

func TestAnUpdateThatLeavesADocumentRefusedIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		lax := newClient[*Shop](t, js, cfg)
		cfg.Strict = entity.StrictRefuse
		client := newClient[*Shop](t, js, cfg)
		put(t, js, "s", `{"spec":{"title":"old","future":1}}`)
		shop, err := lax.Get(t.Context(), "s")
		must(t, err)
		shop.Spec.Title = "new"
		err = client.Update(t.Context(), shop)
		wantError(t, "an update", apierrors.IsInvalid, err)
		// Without what is kept an update mends it.
		put(t, js, "s", `{"metadata":{"ownerReferences":[{"name":"x"}]},"spec":{"title":"old"}}`)
		shop, err = lax.Get(t.Context(), "s")
		must(t, err)
		shop.OwnerReferences = nil
		must(t, client.Update(t.Context(), shop))
	})
}
