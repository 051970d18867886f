package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// findings are those of a run.
func (w *world) findings(args ...string) []finding {
	w.Helper()
	r := w.nagi(append([]string{"doctor", "-o", "json"}, args...)...)
	var all []finding
	if err := json.Unmarshal([]byte(r.out), &all); err != nil || r.code != 0 && r.code != CodeNotSo {
		w.Fatalf("%v: %+v", err, r)
	}
	return all
}

// wantFinding wants one of a check, with these parts in what it says and what is to do.
func wantFinding(t *testing.T, all []finding, level severity, check string, parts ...string) {
	t.Helper()
	for _, f := range all {
		if f.Severity != level || f.Check != check {
			continue
		}
		found := true
		for _, part := range parts {
			found = found && strings.Contains(f.About+" "+f.Says+" "+f.Do, part)
		}
		if found {
			return
		}
	}
	t.Errorf("there is no %s of %s with %q in %+v", level, check, parts, all)
}

func TestDoctorFindsWhatIsNotWell(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "lab.odd", `{"spec":{"host":"odd.example","Colour":"red"}}`)
		w.put("nagi-kinds", "Nonsense", `[]`)
		time.Sleep(5 * time.Second)
		all := w.findings("-v")
		wantFinding(t, all, isError, "parked", "websites", "1 of its keys", "shop/blog", "nagi why Website.example.com/shop/blog")
		wantFinding(t, all, isError, "documents", "lab/new", "nagi edit Website.example.com/lab/new")
		wantFinding(t, all, isWarning, "documents", "lab/odd", "Colour")
		wantFinding(t, all, isWarning, "retry", "1 of its keys", "shop/cart")
		wantFinding(t, all, isWarning, "registry", "Nonsense")
		wantFinding(t, all, isOK, "connection", "JetStream")
		wantFinding(t, all, isOK, "clock")
		wantFinding(t, all, isOK, "rights", "websites")
		wantFinding(t, all, isOK, "orphans")
		for i := range all[1:] {
			if all[i].Severity == isOK && all[i+1].Severity != isOK {
				t.Errorf("the most severe does not come first: %+v", all)
			}
		}
		r := w.nagi("doctor", "websites")
		if r.code != CodeNotSo || strings.Contains(r.out, "\nok ") || !strings.HasPrefix(r.out, "error ") {
			t.Errorf("%+v", r)
		}
	})
}

func TestDoctorOfWhatIsWell(t *testing.T) {
	inEmptyWorld(t, func(w *world) {
		w.put("websites", "shop.home", `{"spec":{"host":"home.example"}}`)
		time.Sleep(5 * time.Second)
		if r := w.nagi("doctor"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "All is as it should be") {
			t.Errorf("%+v", r)
		}
	})
}

func TestDoctorFindsAControllerThatDoesNotAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		wantFinding(t, w.findings(), isError, "controller", "websites", "nagi why")
	})
}

func TestDoctorFindsSettingsThatLoseData(t *testing.T) {
	inWorld(t, func(w *world) {
		stream, err := w.js.Stream(w.Context(), "KV_websites")
		w.must(err)
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgsPerSubject, cfg.MaxAge, cfg.SubjectDeleteMarkerTTL = 1, time.Hour, 0
		_, err = w.js.UpdateStream(w.Context(), cfg)
		w.must(err)
		wantFinding(t, w.findings("websites"), isError, "bucket", "TTL of 1h", "nats stream edit KV_websites")
	})
	inWorld(t, func(w *world) {
		w.stopController()
		w.must(w.js.DeleteKeyValue(w.Context(), "websites-status"))
		wantFinding(t, w.findings("websites"), isError, "bucket", "nagi bootstrap Website.example.com")
	})
}

func TestAClockIsWrongByMoreThanTheAnswerTook(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct{ took, ahead, want time.Duration }{
		{0, 0, 0}, {0, 900 * time.Millisecond, 0}, {0, time.Minute, time.Minute}, {0, -time.Minute, -time.Minute},
		{2 * time.Second, 1900 * time.Millisecond, 0}, {2 * time.Second, 3 * time.Second, 3 * time.Second},
	} {
		if got := skewOf(at, at.Add(c.took), at.Add(c.took/2+c.ahead)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func inEmptyWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func TestDoctorFindsKeysThatWakeThemselvesAndOrphans(t *testing.T) {
	inOrphanedWorld(t, func(w *world) {
		w.put("websites", "lab.loop", `{"spec":{"host":"wakes.example"}}`)
		w.settle()
		w.settle()
		all := w.findings()
		wantFinding(t, all, isWarning, "looping", "1 of its keys wake themselves", "lab/loop", "nagi why Website.example.com/lab/loop")
		wantFinding(t, all, isWarning, "orphans", "websites", "4 objects stay", "nagi orphans Website.example.com")
	})
}

// A replica that waits for a lease, which nobody renews, answers that nobody leads.
func TestDoctorFindsThatNobodyLeads(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		w.put("websites-status", "_nagi.lease", `{"holderIdentity":"another","leaseDurationSeconds":300,"acquireTime":"`+
			time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")+`","renewTime":"`+
			time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")+`","leaseTransitions":1}`)
		w.startController()
		time.Sleep(5 * time.Second)
		wantFinding(t, w.findings("websites"), isError, "leader", "websites", "leader", "/readyz")
	})
}

func TestDoctorFindsAnAccountThatIsNearlyFull(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithConfigText(`
			accounts { A { jetstream { max_memory: 200KB, max_file: 1MB }, users [{user: all, password: all}] } }
			no_auth_user: all`))
		for _, f := range w.findings("-v") {
			if f.Check == "connection" && strings.Contains(f.Says, "the account uses") {
				t.Errorf("it is not full yet: %+v", f)
			}
		}
		w.bucket("filler")
		w.put("filler", "a", strings.Repeat("x", 190_000))
		wantFinding(t, w.findings(), isWarning, "connection", "JetStream", "of 204800 bytes of memory", "before writes fail")
	})
}
