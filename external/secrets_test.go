package external

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

type keyed struct {
	Size int    `json:"size"`
	Key  string `json:"key" nagi:"secret"`
}

// keyedAPI applies, and loses its first answer.
type keyedAPI struct {
	is    *keyed
	calls int
}

func (*keyedAPI) Kind() string { return "Keyed" }

func (a *keyedAPI) Observe(context.Context, Target) (Observation[keyed], error) {
	if a.is == nil {
		return Absent[keyed](), nil
	}
	return Exists(*a.is), nil
}

func (*keyedAPI) Diff(desired, observed keyed) []Change {
	if desired == observed {
		return nil
	}
	return []Change{{Field: "key", From: observed.Key, To: desired.Key}}
}

func (a *keyedAPI) Apply(_ context.Context, r ApplyRequest[keyed, keyed]) (Outcome, error) {
	a.is = &r.Desired
	if a.calls++; a.calls == 1 {
		return Outcome{}, errors.New("the answer is lost")
	}
	return Done(), nil
}

func (a *keyedAPI) Delete(context.Context, DeleteRequest[keyed]) (Outcome, error) { return Done(), nil }

// remembering is the Runtime of one primary. It keeps all that is written down or reported.
type remembering struct {
	entry Entry
	said  []string
}

func (*remembering) Owner() Owner                                  { return Owner{Kind: "Site", Key: "a"} }
func (r *remembering) Store() Store                                { return r }
func (*remembering) Gate(string) Gate                              { return nil }
func (r *remembering) Pending(what string, _ time.Duration)        { r.said = append(r.said, what) }
func (r *remembering) Drifted(what string)                         { r.said = append(r.said, what) }
func (r *remembering) Load(context.Context, string) (Entry, error) { return r.entry, nil }

func (r *remembering) Save(_ context.Context, _ string, _, after Entry) error {
	r.entry = after
	data, err := json.Marshal(after)
	r.said = append(r.said, string(data))
	return err
}

func TestAnIntentWithoutItsSecretsIsSettledAfterACrash(t *testing.T) {
	runtime, api := &remembering{}, &keyedAPI{}
	ctx := WithRuntime(t.Context(), runtime)
	if _, err := Reconcile(ctx, Driver[keyed, keyed](api), keyed{1, "s3cr3t-1"}, Settle(0)); err == nil {
		t.Fatal("the first call succeeded")
	}
	if runtime.entry.Intent == nil || string(runtime.entry.Intent.Desired) != `{"size":1}` {
		t.Fatalf("intent %+v", runtime.entry.Intent)
	}
	result, err := Reconcile(ctx, Driver[keyed, keyed](api), keyed{2, "s3cr3t-2"}, Settle(0))
	if err != nil || result.State != StateSynced || *api.is != (keyed{2, "s3cr3t-2"}) || runtime.entry.Intent != nil {
		t.Errorf("%+v, %v; the API has %+v", result, err, api.is)
	}
	api.is.Key = "s3cr3t-of-somebody"
	result, err = Reconcile(ctx, Driver[keyed, keyed](api), keyed{2, "s3cr3t-2"}, Drift(DriftReport))
	if err != nil || result.State != StateDrifted || len(result.Drift) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	for _, said := range runtime.said {
		if strings.Contains(said, "s3cr3t") {
			t.Error(said)
		}
	}
}

// TestWhatLacksItsSecretDoesNotPassForAnOlderWish: the intent lacks the secret, too, so that they look the same.
func TestWhatLacksItsSecretDoesNotPassForAnOlderWish(t *testing.T) {
	runtime, api := &remembering{}, &keyedAPI{}
	ctx := WithRuntime(t.Context(), runtime)
	if _, err := Reconcile(ctx, Driver[keyed, keyed](api), keyed{1, "s3cr3t-1"}, Settle(0)); err == nil {
		t.Fatal("the first call succeeded")
	}
	api.is = &keyed{Size: 1}
	result, err := ReconcileAbsent(ctx, Driver[keyed, keyed](api), Settle(0))
	if err != nil || result.Did != "" || result.State != StatePending || runtime.entry.Intent == nil {
		t.Errorf("%+v, %v: the older wish passes for done", result, err)
	}
}

// growing is longer each time that it is encoded.
type growing string

func (g growing) MarshalJSON() ([]byte, error) { return json.Marshal(string(g) + "+") }

func TestAWishThatDoesNotSurviveIsRefusedWithoutItsSecrets(t *testing.T) {
	type wish struct {
		Key growing `json:"key" nagi:"secret"`
	}
	_, err := Reconcile(t.Context(), Driver[wish, keyed](unused[wish]{}), wish{"s3cr3t"})
	if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), "not the same") {
		t.Error(err)
	}
}

// unused is a driver that is never called for more than its kind.
type unused[Desired any] struct{ Driver[Desired, keyed] }

func (unused[Desired]) Kind() string { return "Keyed" }

// holding is a wish whose type does not tell of its secrets.
type holding struct {
	Auth any `json:"auth"`
}

// sorted is in the order in which a map is written, so that it is the same after it was written and read.
type sorted struct {
	Key  string `json:"key" nagi:"secret"`
	Size int    `json:"size"`
}

// holdingAPI fails to apply, and then has another key.
type holdingAPI struct{ calls int }

func (*holdingAPI) Kind() string { return "Holding" }

func (a *holdingAPI) Observe(context.Context, Target) (Observation[keyed], error) {
	if a.calls == 0 {
		return Absent[keyed](), nil
	}
	return Exists(keyed{1, "s3cr3t-of-somebody"}), nil
}

func (*holdingAPI) Diff(desired holding, observed keyed) []Change {
	return []Change{{Field: "auth.key", From: observed.Key, To: desired.Auth.(sorted).Key}}
}

func (a *holdingAPI) Apply(context.Context, ApplyRequest[holding, keyed]) (Outcome, error) {
	a.calls++
	return Outcome{}, errors.New("the answer is lost")
}

func (*holdingAPI) Delete(context.Context, DeleteRequest[keyed]) (Outcome, error) { return Done(), nil }

// TestASecretThatAnInterfaceHoldsIsNeitherWrittenDownNorTold.
func TestASecretThatAnInterfaceHoldsIsNeitherWrittenDownNorTold(t *testing.T) {
	runtime, api := &remembering{}, &holdingAPI{}
	ctx := WithRuntime(t.Context(), runtime)
	wish := holding{sorted{"s3cr3t", 1}}
	for range 3 {
		_, err := Reconcile(ctx, Driver[holding, keyed](api), wish, Drift(DriftReport))
		if err != nil {
			runtime.said = append(runtime.said, err.Error())
		}
	}
	_, err := Reconcile(ctx, Driver[holding, keyed](api), holding{struct {
		Size int
		Key  string `nagi:"secret"`
	}{1, "s3cr3t"}}, Settle(0))
	if err == nil {
		t.Error("a wish that is in another order after it was read is taken")
	} else {
		runtime.said = append(runtime.said, err.Error())
	}
	told := strings.Join(runtime.said, "\n")
	if strings.Contains(told, "s3cr3t") || !strings.Contains(told, `{"auth":{"size":1}}`) {
		t.Error(told)
	}
}

// revealingAPI has a resource with a secret that nobody wishes.
type revealingAPI struct{}

func (revealingAPI) Kind() string { return "Revealing" }

func (revealingAPI) Observe(context.Context, Target) (Observation[keyed], error) {
	return Exists(keyed{1, "s3cr3t"}), nil
}

func (revealingAPI) Diff(_ int, observed keyed) []Change {
	return []Change{{Field: "key", From: observed.Key, To: "none"}}
}

func (revealingAPI) Apply(context.Context, ApplyRequest[int, keyed]) (Outcome, error) {
	return Done(), nil
}

func (revealingAPI) Delete(context.Context, DeleteRequest[keyed]) (Outcome, error) {
	return Done(), nil
}

func TestASecretThatIsObservedIsNotTold(t *testing.T) {
	runtime := &remembering{}
	result, err := Reconcile(WithRuntime(t.Context(), runtime), Driver[int, keyed](revealingAPI{}), 1, Drift(DriftReport))
	told := strings.Join(runtime.said, " ")
	if err != nil || result.State != StateDrifted || strings.Contains(told, "s3cr3t") || !strings.Contains(told, "key") {
		t.Errorf("%+v, %v: %s", result, err, told)
	}
}

// hiding writes what it holds below a field that is not exported.
type hiding struct{ held []any }

func (h hiding) MarshalJSON() ([]byte, error) { return json.Marshal(h.held) }

func (h *hiding) UnmarshalJSON(data []byte) error {
	var held []keyed
	err := json.Unmarshal(data, &held)
	for _, k := range held {
		h.held = append(h.held, k)
	}
	return err
}

// asking asks for keys that hiding holds, and gets no answer.
type asking struct{ *keyedAPI }

func (asking) Diff(hidingWish, keyed) []Change { return []Change{{Field: "key"}} }

func (asking) Apply(context.Context, ApplyRequest[hidingWish, keyed]) (Outcome, error) {
	return Outcome{}, errors.New("the answer is lost")
}

type hidingWish struct {
	Size int    `json:"size"`
	Keys hiding `json:"keys"`
}

func TestAnIntentLacksTheSecretsBelowFieldsThatAreNotExported(t *testing.T) {
	runtime := &remembering{}
	ctx := WithRuntime(t.Context(), runtime)
	wish := hidingWish{1, hiding{[]any{keyed{1, "s3cr3t"}}}}
	if _, err := Reconcile(ctx, Driver[hidingWish, keyed](asking{&keyedAPI{}}), wish, Settle(0)); err == nil {
		t.Fatal("the first call succeeded")
	}
	if runtime.entry.Intent == nil || string(runtime.entry.Intent.Desired) != `{"size":1}` {
		t.Errorf("intent %+v", runtime.entry.Intent)
	}
}
