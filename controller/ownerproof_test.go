package controller

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func proofSecret(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }

// proving is a controller that gives each site a page of its key, and owns drafts, too.
type proving struct {
	*world
	sites         *entity.Client[*site]
	pages, drafts *entity.Client[*page]
	c             *Controller[*site]
	r             *running
	log           logLines
}

func newProving(t *testing.T, opts ...Option) *proving {
	t.Helper()
	p := &proving{world: newWorld(t)}
	p.begin(opts...)
	return p
}

// begin runs a controller of a new process.
func (p *proving) begin(opts ...Option) {
	p.t.Helper()
	p.sites, p.pages, p.drafts = p.world.sites(), p.world.pages(), p.client("Draft", "drafts")
	c, err := New("sites", p.sites, ReconcilerFunc(p.reconcile), append([]Option{
		Owns(p.pages), Owns(p.drafts), WithResyncInterval(time.Second),
		WithBackoff(5*time.Millisecond, 50*time.Millisecond),
	}, opts...)...)
	must(p.t, err)
	p.c, p.r = c, p.run(logging{c, p.log.logger()})
}

// logged are the lines of the log whose message begins so.
func (p *proving) logged(beginning string) (found []map[string]any) {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for _, line := range p.log.lines {
		if message, ok := line["msg"].(string); ok && strings.HasPrefix(message, beginning) {
			found = append(found, line)
		}
	}
	return found
}

func (p *proving) reconcile(ctx context.Context, req Request) (Result, error) {
	s, err := p.sites.Lister().Get(req.Key)
	if err != nil || s.Spec.Title == "writes nothing" {
		return Result{}, nil
	}
	_, err = CreateOrUpdate(ctx, p.pages, named(req.Key), func(obj *page) error {
		obj.Annotations = map[string]string{"mine": "1"} // all that was there goes, but for the runtime's
		obj.Spec.Title = s.Spec.Title
		return nil
	})
	return Result{}, err
}

func (p *proving) site(name, title string) {
	p.t.Helper()
	must(p.t, p.sites.Create(p.t.Context(), newSite(name, title)))
	eventuallyReason(p.t, p.sites, name, entity.ReasonSynced)
}

// gone deletes a site, and waits for the end of its teardown.
func (p *proving) gone(name string) {
	p.t.Helper()
	must(p.t, p.sites.Delete(p.t.Context(), name))
	natstest.Eventually(p.t, name+" is torn down", noRecord(p.t, p.sites, name))
}

// sweeps waits for some more.
func (p *proving) sweeps() {
	p.t.Helper()
	sweeps := p.c.Stats().Sweeps
	natstest.Eventually(p.t, "more sweeps", func() bool { return p.c.Stats().Sweeps >= sweeps+4 })
}

// copyMarks is what somebody does who may read one page and write another: it carries all labels and annotations of the
// first.
func (p *proving) copyMarks(from *page, to *entity.Client[*page], name string) {
	p.t.Helper()
	forged := newPage(name, "somebody else's")
	forged.Labels, forged.Annotations = maps.Clone(from.Labels), maps.Clone(from.Annotations)
	must(p.t, to.Create(p.t.Context(), forged))
}

func (p *proving) page(name string) *page {
	p.t.Helper()
	obj, err := p.pages.Get(p.t.Context(), name)
	must(p.t, err)
	return obj
}

// TestWithAProofACopyOfTheMarksOfAnOwnerDeletesNothing, neither by cascade nor by sweep: not on a page of another name,
// and not on one of the same name in another bucket. Without, who may write into a page may have it deleted.
func TestWithAProofACopyOfTheMarksOfAnOwnerDeletesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		opts []Option
		stay bool
	}{
		"with":    {[]Option{WithOwnerProof(proofSecret('a'))}, true},
		"without": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				p := newProving(t, test.opts...)
				p.site("home", "one")
				marked := p.page("home")
				p.copyMarks(marked, p.pages, "victim")
				p.copyMarks(marked, p.drafts, "home")
				natstest.Eventually(t, "the cache shows them", func() bool {
					_, here := p.pages.Lister().Get("victim")
					_, there := p.drafts.Lister().Get("home")
					return here == nil && there == nil
				})
				p.gone("home")
				if exists(t, p.pages, "home") {
					t.Error("its own page is still there")
				}
				if here, there := exists(t, p.pages, "victim"), exists(t, p.drafts, "home"); here != test.stay ||
					there != test.stay {
					t.Errorf("after the cascade the page stays: %v, the draft stays: %v; want %v", here, there, test.stay)
				}
				if n := p.c.Stats().LeftUnproven; test.stay && n != 2 {
					t.Errorf("the teardown says that it left %d, want 2", n)
				}

				p.copyMarks(marked, p.pages, "late")
				if !test.stay {
					natstest.Eventually(t, "it is swept", gone(t, p.pages, "late"))
					return
				}
				natstest.Eventually(t, "they are reported", func() bool { return p.c.Stats().Unproven == 3 })
				p.sweeps()
				for _, name := range []string{"victim", "late"} {
					if !exists(t, p.pages, name) {
						t.Errorf("page %q was swept", name)
					}
				}
				if !exists(t, p.drafts, "home") {
					t.Error("the draft was swept")
				}
				if stats := p.c.Stats(); stats.Orphaned != 0 || stats.LeftUnproven != 2 {
					t.Errorf("%d orphaned, %d left by the teardown", stats.Orphaned, stats.LeftUnproven)
				}
				p.toldOnce()
			})
		})
	}
}

// toldOnce checks that the log names each object that somebody marked once, and the end of the teardown two.
func (p *proving) toldOnce() {
	p.t.Helper()
	named := map[string]int{}
	for _, line := range p.logged("Objects name an owner of this controller and carry no valid proof") {
		for _, name := range line["first"].([]any) {
			named[name.(string)]++
		}
	}
	want := map[string]int{
		"Owns Page (bucket pages) victim": 1, "Owns Page (bucket pages) late": 1, "Owns Draft (bucket drafts) home": 1,
	}
	if !maps.Equal(named, want) {
		p.t.Errorf("sweeps have named %v, want %v", named, want)
	}
	ends := p.logged("The teardown has left objects")
	if len(ends) != 1 || ends[0]["all"] != 2.0 || ends[0]["key"] != "home" || len(ends[0]["first"].([]any)) != 2 {
		p.t.Errorf("the teardown has said %v", ends)
	}
}

// TestWhatIsProvenIsDeletedAsBefore, by cascade and by sweep, by older secrets, too.
func TestWhatIsProvenIsDeletedAsBefore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t, WithOwnerProof(proofSecret('a')), WithSweepDryRun())
		for _, name := range []string{"home", "swept"} {
			p.site(name, "one")
		}
		p.r.halt()
		must(t, p.sites.Delete(t.Context(), "swept"))
		must(t, p.kv("sites-status").Delete(t.Context(), "swept")) // nothing is owed, so only the sweep is left
		p.begin(WithOwnerProof(proofSecret('b'), proofSecret('a')))
		natstest.Eventually(t, "it is swept", gone(t, p.pages, "swept"))
		p.gone("home")
		if exists(t, p.pages, "home") {
			t.Error("its own page is still there")
		}
		if stats := p.c.Stats(); stats.Unproven+int(stats.LeftUnproven) != 0 {
			t.Errorf("%d unproven, %d left", stats.Unproven, stats.LeftUnproven)
		}
	})
}

// TestAProofIsWrittenOnceForEachFirstSecret: what has none, or one by another secret, is written again by the next
// reconcile; what has one costs nothing. So the option can be given, and its secret changed, at any time.
func TestAProofIsWrittenOnceForEachFirstSecret(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t)
		const sites = 3
		for i := range sites {
			p.site(fmt.Sprint("site-", i), "one")
		}
		p.r.halt()
		proofs := map[string]bool{"": true}
		for _, step := range []struct {
			name    string
			secrets [][]byte
			writes  uint64
		}{
			{"the option", [][]byte{proofSecret('a')}, sites},
			{"a second secret", [][]byte{proofSecret('a'), proofSecret('b')}, 0},
			{"another first secret", [][]byte{proofSecret('b'), proofSecret('a')}, sites},
			{"the old one goes", [][]byte{proofSecret('b')}, 0},
		} {
			before := p.lastSequence("pages")
			p.begin(WithOwnerProof(step.secrets...))
			natstest.Eventually(t, "all are proven", func() bool {
				stats := p.c.Stats()
				return stats.Sweeps > 0 && stats.Unproven == 0 && stats.ProvenByOlder == 0 && stats.Reconciles >= sites
			})
			p.sweeps()
			if n := p.lastSequence("pages") - before; n != step.writes {
				t.Errorf("%s: %d writes, want %d", step.name, n, step.writes)
			}
			proof := p.page("site-0").Annotations[entity.OwnerProofAnnotation]
			if proofs[proof] != (step.writes == 0) {
				t.Errorf("%s: the proof is %q", step.name, proof)
			}
			proofs[proof] = true
			p.r.halt()
		}
	})
}

// TestSweepsCountWhatIsNotProvenYet, and what an older secret has proven.
func TestSweepsCountWhatIsNotProvenYet(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t, WithOwnerProof(proofSecret('a')))
		p.site("home", "one")
		must(t, p.sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"writes nothing"}}`)))
		p.r.halt()
		p.begin(WithOwnerProof(proofSecret('b'), proofSecret('a')))
		natstest.Eventually(t, "it is counted", func() bool { return p.c.Stats().ProvenByOlder == 1 })
		if n := p.c.Stats().Unproven; n != 0 {
			t.Errorf("%d are unproven", n)
		}
		p.r.halt()
		p.begin(WithOwnerProof(proofSecret('b')))
		natstest.Eventually(t, "it is counted", func() bool { return p.c.Stats().Unproven == 1 })
		must(t, p.sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"two"}}`)))
		natstest.Eventually(t, "it is proven", func() bool { return p.c.Stats().Unproven == 0 })
	})
}

// TestAProofThatIsTakenOffOrBrokenIsWrittenAgain.
func TestAProofThatIsTakenOffOrBrokenIsWrittenAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t, WithOwnerProof(proofSecret('a')))
		p.site("home", "one")
		proof := p.page("home").Annotations[entity.OwnerProofAnnotation]
		for _, broken := range []string{`null`, `"made up"`, `"` + strings.ToLower(proof) + `"`} {
			must(t, p.pages.Patch(t.Context(), "home",
				[]byte(`{"metadata":{"annotations":{"`+entity.OwnerProofAnnotation+`":`+broken+`}}}`)))
			natstest.Eventually(t, "it is right again after "+broken, func() bool {
				return p.page("home").Annotations[entity.OwnerProofAnnotation] == proof
			})
		}
	})
}

// TestPruneLeavesWhatIsNotProven.
func TestPruneLeavesWhatIsNotProven(t *testing.T) {
	for name, test := range map[string]struct {
		opts []Option
		stay bool
	}{
		"with":    {[]Option{WithOwnerProof(proofSecret('a'))}, true},
		"without": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				p := newPruned(t, test.opts...)
				must(t, p.sites.Create(t.Context(), newSite("home", "a,b")))
				natstest.Eventually(t, "it has its pages", func() bool { return len(p.names()) == 2 })
				marked, err := p.pages.Get(t.Context(), "home.a")
				must(t, err)
				forged := newPage("victim", "")
				forged.Labels, forged.Annotations = marked.Labels, marked.Annotations
				must(t, p.pages.Create(t.Context(), forged))
				natstest.Eventually(t, "the cache shows it, or has seen it go", func() bool {
					_, err := p.pages.Lister().Get("victim")
					return err == nil || p.c.Stats().Pruned > 0
				})
				p.retitle("home", "a")
				natstest.Eventually(t, "what is not wanted is pruned", gone(t, p.pages, "home.b"))
				if test.stay {
					p.c.Enqueue("home", OperationManual)
					n := p.c.Stats().Reconciles
					natstest.Eventually(t, "another reconcile", func() bool { return p.c.Stats().Reconciles > n })
					if !exists(t, p.pages, "victim") {
						t.Error("what is not proven was pruned")
					}
					return
				}
				natstest.Eventually(t, "so is what somebody has marked", gone(t, p.pages, "victim"))
			})
		})
	}
}

// TestAMadeUpStampEngagesNoBrake, with proofs or without.
func TestAMadeUpStampEngagesNoBrake(t *testing.T) {
	for name, test := range map[string]struct {
		opts     []Option
		reported func(Stats) int
	}{
		"with proofs":    {[]Option{WithOwnerProof(proofSecret('a'))}, func(s Stats) int { return s.Unproven }},
		"without proofs": {nil, func(s Stats) int { return s.NeverWas }},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				p := newProving(t, test.opts...)
				p.site("home", "one")
				forged := newPage("victim", "")
				p.c.SetOwner(forged, "gone")
				_, stream, _ := strings.Cut(p.page("home").Annotations[entity.OwnerRevisionAnnotation], "@")
				forged.Annotations[entity.OwnerRevisionAnnotation] = "1000@" + stream
				must(t, p.pages.Create(t.Context(), forged))
				natstest.Eventually(t, "it is reported", func() bool { return test.reported(p.c.Stats()) == 1 })
				p.sweeps()
				if s := p.c.Stats(); s.BrakeEngaged > 0 || !exists(t, p.pages, "victim") {
					t.Errorf("the brake is engaged: %s; it exists: %v", s.Brake.Reason, exists(t, p.pages, "victim"))
				}
			})
		})
	}
}

// TestSetProvenOwnerProvesWhatIsWrittenByOtherMeans, and SetOwner does not.
func TestSetProvenOwnerProvesWhatIsWrittenByOtherMeans(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t, WithOwnerProof(proofSecret('a')))
		p.site("home", "writes nothing")
		proven, unproven := newPage("proven", ""), newPage("unproven", "")
		p.c.SetProvenOwner(proven, "home", ProofOfBucket("pages"))
		p.c.SetOwner(unproven, "home")
		must(t, p.pages.Create(t.Context(), proven))
		must(t, p.pages.Create(t.Context(), unproven))
		natstest.Eventually(t, "one is not proven", func() bool { return p.c.Stats().Unproven == 1 })
		p.gone("home")
		if exists(t, p.pages, "proven") || !exists(t, p.pages, "unproven") {
			t.Error("what is proven stays, or what is not is gone")
		}

		// The same owner again leaves a proof; another one takes it off.
		obj := proven.DeepCopyObject().(*page)
		p.c.SetOwner(obj, "home")
		if obj.Annotations[entity.OwnerProofAnnotation] != proven.Annotations[entity.OwnerProofAnnotation] {
			t.Error("SetOwner of the same owner has changed the proof")
		}
		p.c.SetOwner(obj, "another")
		if proof, ok := obj.Annotations[entity.OwnerProofAnnotation]; ok {
			t.Errorf("SetOwner of another owner left the proof %q", proof)
		}
		// So does a controller that knows of no proofs.
		p.r.halt()
		p.begin()
		obj = proven.DeepCopyObject().(*page)
		held := obj.Annotations
		p.c.SetOwner(obj, "home")
		if _, ok := obj.Annotations[entity.OwnerProofAnnotation]; ok || held[entity.OwnerProofAnnotation] == "" {
			t.Error("without the option SetOwner left the proof, or changed a map that may be shared")
		}
	})
}

// TestWhatAPolicyLeavesStaysThoughItIsProvenAgain: a secret was missing while its owner went.
func TestWhatAPolicyLeavesStaysThoughItIsProvenAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newProving(t, WithOwnerProof(proofSecret('a')))
		p.site("home", "one")
		must(t, p.sites.Patch(t.Context(), "home", fmt.Appendf(nil,
			`{"spec":{"title":"writes nothing"},"metadata":{"annotations":{%q:%q}}}`,
			DeletionPolicyAnnotation, DeletionPolicyOrphan)))
		natstest.Eventually(t, "the policy is recorded", func() bool {
			rec, err := p.sites.Record(t.Context(), "home")
			return err == nil && rec.DeletionPolicy == DeletionPolicyOrphan
		})
		p.r.halt()
		p.begin(WithOwnerProof(proofSecret('b')))
		natstest.Eventually(t, "it is not proven", func() bool { return p.c.Stats().Unproven == 1 })
		p.gone("home")
		p.sweeps()
		if n := p.c.Stats().LeftUnproven; n != 0 {
			t.Errorf("%d were left for the lack of a proof, though all were to stay", n)
		}
		p.r.halt()
		p.begin(WithOwnerProof(proofSecret('a')))
		p.sweeps()
		if n := p.c.Stats().Unproven; n != 0 {
			t.Fatalf("%d are not proven, so this says nothing", n)
		}
		if !exists(t, p.pages, "home") {
			t.Error("it was swept, though the policy was to leave it")
		}
	})
}

// TestResourcesBehindAnAPINeedNoProof: they have no annotations.
func TestResourcesBehindAnAPINeedNoProof(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := cloudtest.NewListed()
		things.Resources.Store(&[]external.Resource{{ID: "1", OwnerKey: "home", Version: "a"}})
		c, err := New("sites", sites, (&calls{}).reconciler(nil),
			OwnsExternal(external.Configure(things, withInterval(10*time.Millisecond))), WithOwnerProof(proofSecret('a')))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		w.run(c)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
		if stats := c.Stats(); stats.Cascaded != 1 || stats.Unproven != 0 {
			t.Errorf("%d deleted, %d unproven", stats.Cascaded, stats.Unproven)
		}
	})
}

// TestWithOwnerProofSaysWhatItNeeds.
func TestWithOwnerProofSaysWhatItNeeds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
		deleter := DeleterFunc(func(context.Context, metav1.Object) error { return nil })
		for name, test := range map[string]struct {
			opts []Option
			says []string
		}{
			"no secret": {[]Option{WithOwnerProof()}, []string{"WithOwnerProof", "a secret is needed", "32 random bytes"}},
			"a short":   {[]Option{WithOwnerProof([]byte("short"))}, []string{"secret 1 has 5 bytes", "at least 16"}},
			"given twice": {
				[]Option{WithOwnerProof(proofSecret('a')), WithOwnerProof(proofSecret('b'))}, []string{"twice"},
			},
			"no teardown": {
				[]Option{WithOwnerProof(proofSecret('a')), WithoutTeardown()},
				[]string{"WithOwnerProof", "WithoutTeardown"},
			},
			"a deleter of no resource": {
				[]Option{WithOwnerProof(proofSecret('a')), OwnsKube(informer, WithDeleter(deleter))},
				[]string{"OwnsKube", "WithOwnerProof", "GroupResource()", "kube.Deleter"},
			},
		} {
			_, err := New("sites", sites, (&calls{}).reconciler(nil), test.opts...)
			for _, word := range test.says {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %v, want one that says %q", name, err, word)
				}
			}
		}
		// Without the option such a deleter is fine, and with it such a source is that deletes nothing.
		for _, opts := range [][]Option{
			{OwnsKube(informer, WithDeleter(deleter))}, {WithOwnerProof(proofSecret('a')), OwnsKube(informer)},
		} {
			if _, err := New("sites", sites, (&calls{}).reconciler(nil), opts...); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestWithAProofAForgedInstallationKeepsNoControllerFromStarting. An installation whose proofs are true does.
func TestWithAProofAForgedInstallationKeepsNoControllerFromStarting(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, forged := w.pages(), newPage("forged", "")
		entity.SetOwner(forged, "Site", "home", "strange")
		forged.Annotations[entity.OwnerRevisionAnnotation] = "7@first"
		must(t, pages.Create(t.Context(), forged))
		c, err := New("sites", w.sites(), noReconciler, Owns(pages), WithOwnerProof(proofSecret('a')))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		if !exists(t, pages, "forged") {
			t.Error("what another installation seems to own was deleted")
		}
	})
}
