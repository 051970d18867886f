package controller

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// vault has secrets in all places where a field can be. Their values hold hush, or are hushed.
type vault = entity.Object[vaultSpec, siteStatus]

type vaultSpec struct {
	Title    string                   `json:"title"`
	Password string                   `json:"password,omitempty" nagi:"secret"`
	Pin      int                      `json:"pin,omitempty" nagi:"secret"`
	Users    []vaultUser              `json:"users,omitempty"`
	Backends map[string]*vaultBackend `json:"backends,omitempty"`
	Extra    map[string]any           `json:"extra,omitempty"` // its key is secret by Config.SecretFields
	vaultKeys
	Door vaultDoor `json:",embed"`
	vaultBox
	vaultShelf
	Word vaultWord `json:"word,omitzero"`
	Lock vaultLock `json:"lock,omitzero"`
	Ring vaultRing `json:"ring,omitzero"`
	Safe vaultSafe `json:"safe,omitzero"`
}

type vaultDoor struct {
	Code string `json:"code,omitempty" nagi:"secret"`
}

// vaultBox has a deeper field of the name that one of vaultShelf has.
type vaultBox struct{ vaultDrawer }

type vaultDrawer struct{ Auth string }

type vaultShelf struct {
	Auth *vaultAuth `json:"Auth,omitempty"`
}

type vaultAuth struct {
	User string `json:"user,omitempty"`
	Pass string `json:"pass,omitempty" nagi:"secret"`
}

// vaultWord is one text.
type vaultWord struct {
	value string `nagi:"secret"`
}

func (w vaultWord) MarshalText() ([]byte, error) { return []byte(w.value), nil }

func (w *vaultWord) UnmarshalText(text []byte) error { w.value = string(text); return nil }

// vaultLock holds what its type does not tell.
type vaultLock struct{ held any }

func (l vaultLock) MarshalJSON() ([]byte, error) { return json.Marshal(l.held) }

func (l *vaultLock) UnmarshalJSON(data []byte) error {
	auth := &vaultAuth{}
	l.held = auth
	return json.Unmarshal(data, auth)
}

// vaultRing holds more of it, below a list that is not exported.
type vaultRing struct{ held []any }

func (r vaultRing) MarshalJSON() ([]byte, error) { return json.Marshal(r.held) }

func (r *vaultRing) UnmarshalJSON(data []byte) error {
	var held []vaultAuth
	err := json.Unmarshal(data, &held)
	r.held = nil
	for _, auth := range held {
		r.held = append(r.held, auth)
	}
	return err
}

// vaultSafe holds it below a pointer that is not exported.
type vaultSafe struct{ held *vaultLock }

func (s vaultSafe) MarshalJSON() ([]byte, error) { return json.Marshal(s.held) }

func (s *vaultSafe) UnmarshalJSON(data []byte) error {
	s.held = &vaultLock{}
	return s.held.UnmarshalJSON(data)
}

type vaultUser struct {
	Name  string   `json:"name"`
	Token *string  `json:"token,omitempty" nagi:"secret"`
	Codes []string `nagi:"secret"`
}

type vaultBackend struct {
	Host string        `json:"host"`
	Auth []byte        `json:"auth,omitempty" nagi:"secret"`
	Next *vaultBackend `json:"next,omitempty"`
}

type vaultKeys struct {
	Private map[string]string `json:"private,omitempty" nagi:"secret"`
}

const (
	hush      = "s3cr3t"
	hushed    = 7373737
	hushBytes = "czNjcjN0" // hush in base64
)

func vaultOf(name string) *vault {
	token := hush
	return &vault{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: vaultSpec{
		Title: "visible", Password: hush, Pin: hushed,
		Users: []vaultUser{{Name: "ann", Token: &token, Codes: []string{hush}}},
		Backends: map[string]*vaultBackend{
			"b": {Host: "h", Auth: []byte(hush), Next: &vaultBackend{Host: "i", Auth: []byte(hush)}},
		},
		Extra:     map[string]any{"key": hush, "note": "seen"},
		vaultKeys: vaultKeys{Private: map[string]string{"k": hush}},
		Door:      vaultDoor{hush}, vaultShelf: vaultShelf{&vaultAuth{"seen", hush}}, Word: vaultWord{hush},
		Lock: vaultLock{&vaultAuth{"locked", hush}},
		Ring: vaultRing{[]any{vaultAuth{"ringed", hush}}}, Safe: vaultSafe{&vaultLock{&vaultAuth{"safe", hush}}},
	}}
}

func tellsASecret(text string) bool {
	return strings.Contains(text, hush) || strings.Contains(text, "7373737") || strings.Contains(text, hushBytes)
}

// safe is what a vault becomes behind an API.
type safe struct {
	Size int    `json:"size"`
	Key  string `json:"key" nagi:"secret"`
}

// safeDriver fails the first time, and gets the key wrong the second time.
type safeDriver struct {
	mu      sync.Mutex
	applied []safe
}

func (*safeDriver) Kind() string { return "Safe" }

func (d *safeDriver) Observe(context.Context, external.Target) (external.Observation[safe], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := len(d.applied); {
	case n < 2:
		return external.Absent[safe](), nil
	case n == 2:
		return external.Exists(safe{d.applied[1].Size, hush + "-wrong"}), nil
	default:
		return external.Exists(d.applied[n-1]), nil
	}
}

func (*safeDriver) Diff(desired, observed safe) []external.Change {
	if desired == observed {
		return nil
	}
	return []external.Change{{Field: "key", From: observed.Key, To: desired.Key}}
}

func (d *safeDriver) Apply(_ context.Context, r external.ApplyRequest[safe, safe]) (external.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.applied = append(d.applied, r.Desired); len(d.applied) == 1 {
		return external.Outcome{}, errors.New("not now")
	}
	return external.Done(), nil
}

func (d *safeDriver) Delete(context.Context, external.DeleteRequest[safe]) (external.Outcome, error) {
	return external.Done(), nil
}

// overheard is what was logged, and published to other subjects than those of the documents themselves.
type overheard struct {
	mu    sync.Mutex
	texts []string
}

func (o *overheard) add(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts = append(o.texts, text)
}

func (o *overheard) has(parts ...string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, text := range o.texts {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(text, part)
		}
		if all {
			return true
		}
	}
	return false
}

// loggedRun runs a controller whose log is heard.
type loggedRun struct {
	c *Controller[*vault]
	o *overheard
}

func (l loggedRun) Run(ctx context.Context) error {
	return l.c.Run(klog.NewContext(ctx, funcr.New(func(prefix, args string) {
		l.o.add("log " + prefix + " " + args)
	}, funcr.Options{Verbosity: 9})))
}

func (w *world) vaults() *entity.Client[*vault] {
	w.t.Helper()
	client, err := entity.NewClient[*vault](w.t.Context(), w.js, entity.Config{
		Kind: "Vault", Bucket: "vaults", Storage: jetstream.MemoryStorage, SecretFields: []string{"spec.extra.key"},
	})
	must(w.t, err)
	w.t.Cleanup(client.Close)
	return client
}

// overhear listens to all that is published, answers and the documents themselves excepted.
func (w *world) overhear() *overheard {
	w.t.Helper()
	o := &overheard{}
	nc, _ := natstest.Connect(w.t, w.server.URL())
	sub, err := nc.Subscribe(">", func(m *nats.Msg) {
		if !strings.HasPrefix(m.Subject, "$KV.vaults.") && !strings.HasPrefix(m.Subject, "_INBOX.") {
			o.add(m.Subject + " " + string(m.Data))
		}
	})
	must(w.t, err)
	must(w.t, sub.SetPendingLimits(-1, -1))
	must(w.t, nc.Flush())
	return o
}

func TestNoCopyOfADocumentHoldsItsSecrets(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		heard, vaults, driver := w.overhear(), w.vaults(), &safeDriver{}
		events, err := recorder.New(recorder.Config{JetStream: w.js})
		must(t, err)
		defer events.Close(context.Background())
		c, err := New("keeper", vaults, ReconcilerFunc(func(ctx context.Context, r Request) (Result, error) {
			v, err := vaults.Lister().Get(r.Key)
			if err != nil {
				return Result{}, nil
			}
			_, err = external.Reconcile(ctx, external.Driver[safe, safe](driver), safe{len(v.Spec.Title), v.Spec.Password},
				external.Settle(0))
			return Result{}, err
		}), WithEventRecorder(butLease{events}), WithResyncInterval(0))
		must(t, err)
		running := w.run(loggedRun{c, heard})
		must(t, vaults.Create(t.Context(), vaultOf("a")))
		reconciled := func(reason string) func() bool {
			return func() bool { return heard.has("$KV.vaults-status.a ", `"`+reason+`"`) }
		}
		natstest.Eventually(t, "reconciled", reconciled(entity.ReasonSynced))
		if !heard.has("$KV.vaults-status._nagi.intents", `"size":7`) || !heard.has("$KV.vaults-status.a ", "visible") {
			t.Error("intents and records do not have what is no secret")
		}
		driver.mu.Lock()
		if n := len(driver.applied); n < 3 || driver.applied[n-1].Key != hush {
			t.Errorf("applied %v", driver.applied)
		}
		driver.mu.Unlock()
		documents, err := w.js.KeyValue(t.Context(), "vaults")
		must(t, err)
		for i, spec := range []string{
			`{"password":{"a":"s3cr3t"}}`, `{"pin":737373773737377373737}`, `{"pin":"s3cr3t"}`,
			`{"users":[{"token":7373737}]}`, `{"backends":{"b":{"auth":"s3cr3t!"}}}`, `s3cr3t`,
		} {
			name := "invalid" + string(rune('a'+i))
			_, err := documents.Put(t.Context(), name, []byte(`{"spec":`+spec+`}`))
			must(t, err)
			natstest.Eventually(t, "reported", func() bool {
				return heard.has("$KV.vaults-status."+name+" ", entity.ReasonInvalid)
			})
		}
		w.lastKnownAfterADelete(vaults, running)
		heard.mu.Lock()
		defer heard.mu.Unlock()
		for _, text := range heard.texts {
			if tellsASecret(text) {
				t.Errorf("%.600s", text)
			}
		}
	})
}

// lastKnownAfterADelete deletes the vault "a" while no controller runs, and checks what the next one knows of it.
func (w *world) lastKnownAfterADelete(vaults *entity.Client[*vault], running *running) {
	w.t.Helper()
	running.halt()
	must(w.t, vaults.Delete(w.t.Context(), "a"))
	again, known := w.vaults(), make(chan *vault, 10)
	var c *Controller[*vault]
	c, err := New("keeper", again, ReconcilerFunc(func(ctx context.Context, r Request) (Result, error) {
		last, err := c.LastKnown(ctx, r.Key)
		if err == nil && r.Operations.Has(OperationDelete) {
			known <- last
		}
		return Result{}, nil
	}), WithResyncInterval(0))
	must(w.t, err)
	w.run(c)
	natstest.Eventually(w.t, "its delete is reconciled", func() bool { return len(known) > 0 })
	last := (<-known).Spec
	if last.Title != "visible" || last.Users[0].Name != "ann" || last.Backends["b"].Next.Host != "i" ||
		last.Extra["note"] != "seen" || last.vaultShelf.Auth.User != "seen" {
		w.t.Errorf("LastKnown lacks what is no secret: %+v", last)
	}
	if last.Password != "" || last.Pin != 0 || last.Users[0].Token != nil || last.Users[0].Codes != nil ||
		last.Backends["b"].Next.Auth != nil || last.Extra["key"] != nil || last.Private != nil ||
		last.Door.Code != "" || last.vaultShelf.Auth.Pass != "" || last.Word.value != "" ||
		last.Lock.held.(*vaultAuth).Pass != "" {
		w.t.Errorf("LastKnown has secrets: %+v", last)
	}
}
