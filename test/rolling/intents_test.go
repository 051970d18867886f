package rolling

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

const home = "home"

// begun is a creation that a replica has begun and of which it has not seen the end.
type begun struct {
	*world
	cloud                 *cloud
	arrived, goOn, over   <-chan struct{} // see newBegun
	arrive, letGo, finish func()          // close them; only the first call counts
	token                 string          // of the intent
}

func newBegun(t *testing.T) *begun {
	t.Helper()
	b := &begun{world: newWorld(t), cloud: startCloud(t)}
	b.arrived, b.arrive = signal() // the API has the request
	b.goOn, b.letGo = signal()     // the API goes on with it
	b.over, b.finish = signal()    // the creation is carried out
	t.Cleanup(b.letGo)             // before the API closes, which waits for its answers
	return b
}

// signal returns a channel and the function that closes it.
func signal() (<-chan struct{}, func()) {
	c := make(chan struct{})
	return c, sync.OnceFunc(func() { close(c) })
}

// begin makes a replica begin a creation, and kills it. The API carries it out by create, and later ones at once.
func begin(t *testing.T, first side, create func(b *begun) creation) *begun {
	t.Helper()
	b := newBegun(t)
	b.cloud.use(create(b))
	r := b.replica(first)
	b.put(sites, home, `{"spec":{"title":"first","disk":1}}`)
	natstest.Eventually(t, "the API has the request", func() bool { return closed(b.arrived) })
	b.cloud.use(atOnce)
	b.token = b.intent()
	if b.token == "" || b.token != b.cloud.tokens() {
		t.Fatalf("the intent has the token %q, the API was told %q", b.token, b.cloud.tokens())
	}
	r.kill()
	return b
}

func (b *begun) replica(s side) *process { return b.start(s, "-cloud", b.cloud.server.URL) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// intent returns the token of the open intent, "" if none is open.
func (b *begun) intent() string {
	b.t.Helper()
	value, revision := b.get(status, intentsPrefix+home)
	if revision == 0 {
		return ""
	}
	var kept struct {
		Resources map[string]struct {
			Intent *struct {
				Token string `json:"token"`
			} `json:"intent"`
		} `json:"resources"`
	}
	must(b.t, json.Unmarshal(value, &kept))
	for _, entry := range kept.Resources {
		if entry.Intent != nil {
			return entry.Intent.Token
		}
	}
	return ""
}

// settled waits until the site is reconciled, and checks that it has one disk and that this many POSTs asked for it,
// all with the token of the intent.
func (b *begun) settled(posts int) {
	b.t.Helper()
	natstest.Eventually(b.t, "the site is reconciled", func() bool { return b.record(home).reason() == "Synced" })
	if now, ever := b.cloud.count(home); now != 1 || ever != 1 {
		b.t.Errorf("%d disks are there, and %d were made; want one", now, ever)
	}
	if want := strings.TrimSpace(strings.Repeat(b.token+" ", posts)); b.cloud.tokens() != want {
		b.t.Errorf("the API was told to create with the tokens %q, want %q", b.cloud.tokens(), want)
	}
	if token := b.intent(); token != "" {
		b.t.Errorf("the intent %q is still open", token)
	}
}

// goes deletes the site, and waits until its disk, its record and its intents are gone.
func (b *begun) goes() {
	b.t.Helper()
	b.delete(sites, home)
	b.gone()
}

func (b *begun) gone() {
	b.t.Helper()
	natstest.Eventually(b.t, "nothing of the site is left", func() bool {
		now, _ := b.cloud.count(home)
		return now == 0 && !b.exists(status, home) && len(b.keys(status, intentsPrefix)) == 0
	})
}

func TestTheOtherCodeSettlesACreationWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		b := begin(t, first, func(b *begun) creation {
			return func(_ http.ResponseWriter, create func()) {
				create()
				b.arrive()
				<-b.goOn // no answer before the replica is gone
			}
		})
		b.replica(second)
		b.settled(1)
		b.goes()
	})
}

func TestTheOtherCodeRepeatsACreationWithItsToken(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		b := begin(t, first, late)
		b.replica(second)
		b.settled(2)
		b.letGo()
		natstest.Eventually(t, "the first request is carried out, too", func() bool { return closed(b.over) })
		b.settled(2)
		b.goes()
	})
}

// TestTheOtherCodeCreatesNothingElseWhileACreationMayComeLate: the site has changed meanwhile. The token of the intent
// would create a disk that is no longer wanted, and a new token would create a second disk.
func TestTheOtherCodeCreatesNothingElseWhileACreationMayComeLate(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		b := begin(t, first, late)
		changed := b.put(sites, home, `{"spec":{"title":"first","disk":2}}`)
		r := b.replica(second)
		natstest.Eventually(t, "the second has looked", func() bool { return r.endedOf(home) > 0 })
		b.letGo()
		b.reconciled(home, changed)
		b.settled(1)
		if size := b.cloud.size(home); size != 2 {
			t.Errorf("the disk has size %d, want 2", size)
		}
		b.goes()
	})
}

// late makes the disk after the replica that asked for it is gone.
func late(b *begun) creation {
	return func(_ http.ResponseWriter, create func()) {
		b.arrive()
		<-b.goOn
		create()
		b.finish()
	}
}

// TestTheOtherCodeKeepsTheTeardownOwedWhileACreationMayComeLate, or its disk would be left behind.
func TestTheOtherCodeKeepsTheTeardownOwedWhileACreationMayComeLate(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		b := begin(t, first, late)
		b.delete(sites, home)
		r := b.replica(second)
		natstest.Eventually(t, "the second has tried the delete", func() bool { return r.endedOf(home) > 0 })
		r.leads()
		if !b.exists(status, home) || len(b.keys(status, intentsPrefix)) == 0 {
			t.Error("the site was torn down although the creation may be under way")
		}
		b.letGo()
		natstest.Eventually(t, "the disk is made", func() bool { _, ever := b.cloud.count(home); return ever == 1 })
		b.gone()
	})
}

func TestTheOtherCodeRepeatsACreationThatNeverArrived(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		b := begin(t, first, func(b *begun) creation {
			return func(http.ResponseWriter, func()) {
				b.arrive()
				<-b.goOn
			}
		})
		b.replica(second)
		b.settled(2)
		b.goes()
	})
}

func TestTheOtherCodeFollowsAnOperationThatGoesOn(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		const operation = "op-1"
		var create func()
		b := begin(t, first, func(b *begun) creation {
			b.cloud.whenPolled(b.arrive) // the replica has written the operation down
			return func(w http.ResponseWriter, do func()) {
				create = do
				b.cloud.operation(operation, false)
				answer(w, map[string]string{"operation": operation})
			}
		})
		again, polled := signal()
		b.cloud.whenPolled(polled)
		b.replica(second)
		natstest.Eventually(t, "the second follows the operation", func() bool { return closed(again) })
		create()
		b.cloud.operation(operation, true)
		b.settled(1)
		b.goes()
	})
}
