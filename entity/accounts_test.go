package entity_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// shown returns a piece of configuration that docs/security.md shows under the name of a file.
func shown(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/security.md")
	must(t, err)
	_, rest, found := strings.Cut(string(page), "```text\n# "+file+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("docs/security.md shows no %s", file)
	}
	return text
}

// underPrefix is the documented configuration where APP has a JetStream of its own.
func underPrefix(t *testing.T) string {
	t.Helper()
	text := shown(t, "accounts.conf")
	before, rest, _ := strings.Cut(text, "    imports: [")
	_, after, _ := strings.Cut(rest, "    ]\n")
	text = before + "    jetstream: enabled\n" + shown(t, "prefix.conf") + after
	api := `{ service: "$JS.API.>", response_type: stream, accounts: [APP] }`
	if !strings.Contains(text, api) {
		t.Fatalf("the export of the API is another one: %s", text)
	}
	return strings.Replace(text, api, strings.Replace(api, "API.>", "API.STREAM.>", 1)+"\n"+
		strings.Replace(api, "API.>", "API.CONSUMER.>", 1), 1)
}

// What docs/security.md shows for a controller in another account than its buckets is enough for a client.
func TestTheDocumentedAccountsAreEnough(t *testing.T) {
	for name, c := range map[string]struct {
		config func(*testing.T) string
		prefix string
	}{
		"as the only JetStream": {func(t *testing.T) string { return shown(t, "accounts.conf") }, "$JS.API"},
		"under a prefix":        {underPrefix, "JS.data.API"},
	} {
		t.Run(name, virtually(func(t *testing.T) {
			server := natstest.Start(t, natstest.WithConfigText(c.config(t)))
			as := func(user, number string) string {
				return strings.Replace(server.URL(), "://", "://"+user+":change%20me%20"+number+"@", 1)
			}
			_, data := natstest.Connect(t, as("data", "1"))
			nc, _ := natstest.Connect(t, as("app", "2"))
			js, err := jetstream.NewWithAPIPrefix(nc, c.prefix)
			must(t, err)
			sites := entity.Config{Kind: "Site", Bucket: "sites"}
			client := newClient[*Website](t, js, sites)
			start(t, client)
			for _, site := range []string{"a", "b", "c"} {
				must(t, client.Create(t.Context(), website(site)))
			}
			read, err := client.Get(t.Context(), "a")
			must(t, err)
			read.Spec.Replicas = 3
			must(t, client.Update(t.Context(), read))
			read.Status.Ready = true
			must(t, client.UpdateStatus(t.Context(), read))
			must(t, client.Delete(t.Context(), "b"))
			other := newClient[*Website](t, data, sites)
			must(t, other.Create(t.Context(), website("theirs")))
			natstest.Eventually(t, "the cache has all of it", func() bool {
				all, err := client.Lister().List(labels.Everything())
				a, missing := client.Lister().Get("a")
				return err == nil && missing == nil && len(all) == 3 && a.Spec.Replicas == 3 && a.Status.Ready
			})
			time.Sleep(time.Hour)
			live, err := other.List(t.Context())
			must(t, err)
			if len(live) != 3 {
				t.Errorf("%d documents are there, want 3", len(live))
			}
			if st := client.Informer().Status(); st.Err != nil || st.Lists != 1 {
				t.Errorf("%+v", st)
			}
		}))
	}
}
