package natscli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// restoringPage is what an operator reads when a backup is to be restored.
const restoringPage = "docs/restoring.md"

// procedure is a walk by the commands of the page, of a user who may do all.
type procedure struct {
	*walk
	page []string // the commands that stand there
	run  map[string]bool
	stop func() // the controller
}

var (
	shellInPage  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	inlineInPage = regexp.MustCompile("`(nats [^`\n]+)`")
	placeholder  = regexp.MustCompile(`<[a-z]+>`)
)

// typedOn are the commands of a page that are to be typed as they stand there, but for placeholders.
func typedOn(text string) (commands []string) {
	for _, block := range shellInPage.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" {
				commands = append(commands, line)
			}
		}
	}
	for _, inline := range inlineInPage.FindAllStringSubmatch(text, -1) {
		commands = append(commands, inline[1])
	}
	return commands
}

// shell runs a command as an administrator types it.
func (p *procedure) shell(command string) (string, error) {
	out, said, err := p.try("admin", command)
	return out + said, err
}

// does runs the first command of the page that begins so, with its placeholders filled in, and returns what it says.
func (p *procedure) does(begin string, fill ...string) string {
	p.Helper()
	i := slices.IndexFunc(p.page, func(command string) bool { return strings.HasPrefix(command, begin) })
	if i < 0 {
		p.Fatalf("%s has no command that begins with %q", restoringPage, begin)
	}
	command := p.page[i]
	p.run[command] = true
	command = strings.NewReplacer(fill...).Replace(command)
	if left := placeholder.FindString(command); left != "" {
		p.Fatalf("%s: what is %s?", command, left)
	}
	out := p.types(command)
	if help := p.types(command + " --help"); strings.Contains(strings.ToLower(out+help), "deprecated") {
		p.Errorf("%s is deprecated: %s\n%s", command, out, help)
	}
	return out
}

// types runs a command that the page need not have.
func (p *procedure) types(command string) string {
	p.Helper()
	out, err := p.shell(command)
	if err != nil {
		p.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// becomes waits until a command says something.
func (p *procedure) becomes(want, command string) {
	p.Helper()
	for {
		out, err := p.shell(command)
		if err == nil && strings.Contains(out, want) {
			return
		}
		select {
		case <-p.ctx.Done():
			p.Fatalf("%s never says %q: %v\n%s", command, want, err, out)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// put writes sites, and waits until each has its record and its page.
func (p *procedure) put(document string, names ...string) {
	p.Helper()
	for _, name := range names {
		p.types("nats kv put sites " + name + " '" + document + "'")
	}
	for _, name := range names {
		p.becomes(`"phase":"Synced"`, "nats kv get --raw sites-status "+name)
	}
}

// pages are what the sites own, in the order of the alphabet.
func (p *procedure) pages() string {
	p.Helper()
	names := strings.Fields(p.types("nats kv ls pages"))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// starts starts the controller, until stop or the end of the test.
func (p *procedure) starts() {
	p.Helper()
	cmd := p.program("controller", "change me 2", "-last-document-limit=300")
	log, err := os.Create(filepath.Join(p.dir, "log"))
	must(p.T, err)
	cmd.Stdout, cmd.Stderr = log, log
	must(p.T, cmd.Start())
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if said, _ := os.ReadFile(log.Name()); p.Failed() {
			p.Logf("the controller said:\n%s", said)
		}
		_ = log.Close()
	}
	p.Cleanup(p.stop)
}

// answer is the JSON of an answer.
func answer[A any](p *procedure, text string) (a A) {
	p.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		p.Fatalf("%v in %s", err, text)
	}
	return a
}

type (
	braked struct {
		Brake struct {
			Engaged            bool
			Engagement         string
			Count, Held, Swept int
		}
	}
	vanished struct {
		Engagement           string
		Count, NotRestorable int
	}
	orphaned struct {
		List        string
		Count, Kept int
		Orphans     []struct{ Owner, Object, Why string }
	}
)

func newProcedure(t *testing.T) *procedure {
	t.Helper()
	p := &procedure{walk: begin(t), page: typedOn(readPage(t, restoringPage)), run: map[string]bool{}}
	p.printRoles("-bucket=sites")
	p.configure("docs/production.md")
	p.buckets()
	return p
}

// program is a run of the program, as a user of docs/production.md.
func (p *procedure) program(user, password string, flags ...string) *exec.Cmd {
	cmd := p.command("websites", append([]string{"-bucket=sites", "-as=" + user}, flags...)...)
	cmd.Env = append(cmd.Env, "NATS_URL="+p.url, "PASSWORD="+password, "SERVICE_PASSWORD=change me 3")
	return cmd
}

func (p *procedure) buckets() {
	p.Helper()
	if said, err := p.program("bootstrap", "change me 1", "-only=buckets").CombinedOutput(); err != nil {
		p.Fatalf("making the buckets: %v\n%s", err, said)
	}
}

// TestTheProcedureOfARestoreIsWhatThePageSays, from the backup to the release, with each of its commands.
func TestTheProcedureOfARestoreIsWhatThePageSays(t *testing.T) {
	p := newProcedure(t)
	p.starts()
	const document = `{"spec":{"title":"Shop"}}`
	p.put(document, "old0", "old1")
	p.does("nats backup stream KV_sites-status")
	p.does("nats backup stream KV_sites ")

	// The work goes on. A later backup of the records alone knows more documents than there will be, one of them too
	// long for its record. Others nobody knows but their pages.
	p.put(document, "between0", "between1")
	p.put(fmt.Sprintf(`{"spec":{"title":"%0500d"}}`, 0), "long")
	must(t, os.RemoveAll(filepath.Join(p.dir, "backup", "KV_sites-status")))
	p.does("nats backup stream KV_sites-status")
	p.put(document, "young0", "young1", "young2")
	p.stop()

	p.does("nats backup stream KV_sites now/KV_sites")
	p.does("nats backup stream KV_sites-status now/KV_sites-status")
	p.does("nats stream rm -f KV_sites")
	p.does("nats stream rm -f KV_sites-status")
	p.does("nats backup restore stream backup/KV_sites")
	p.does("nats backup restore stream backup/KV_sites-status")
	p.does("nats kv put sites-status _nagi.brake")
	p.starts()
	const all = "between0 between1 long old0 old1 young0 young1 young2"
	p.becomes(`"held":3`, "nats req --raw nagi.sites.read.brake-list ''")
	p.becomes(`"owner":"young2"`, "nats req --raw nagi.sites.read.orphans ''")

	// What is missing?
	brake := answer[braked](p, p.does("nats req --raw nagi.sites.read.brake-list")).Brake
	missing := answer[vanished](p, p.does("nats req --raw nagi.sites.read.brake-vanished"))
	orphans := answer[orphaned](p, p.does("nats req --raw nagi.sites.read.orphans"))
	if !brake.Engaged || brake.Count != 3 || missing.Count != 2 || missing.NotRestorable != 1 || orphans.Count != 3 ||
		orphans.Kept != 0 || orphans.Orphans[0].Owner != "young0" || orphans.Orphans[0].Why != "neverWas" {
		t.Errorf("the brake %+v, vanished %+v, orphans %+v", brake, missing, orphans)
	}
	if got := p.pages(); got != all {
		t.Errorf("the pages are %s", got)
	}

	// It is put back: from the records, and, as the list of orphans says whose it is, from elsewhere.
	p.does("nats req --raw nagi.sites.act.brake-restore", "<engagement>", missing.Engagement, "<count>", "2")
	p.does("nats kv put sites <key>", "<key>", "young0", "<document>", document)
	for _, name := range []string{"between0", "between1", "young0"} {
		p.becomes(`"title":"Shop"`, "nats kv get --raw sites "+name)
		p.becomes(`"phase":"Synced"`, "nats kv get --raw sites-status "+name)
	}
	p.becomes(`"count":2`, "nats req --raw nagi.sites.read.orphans ''")
	was := `nats req --raw nagi.sites.act.orphans-delete '{"list":"` + orphans.List + `","expect":2}'`
	if said, _ := p.shell(was); !strings.Contains(said, "409") {
		t.Errorf("with the list from before: %s", said)
	}
	orphans = answer[orphaned](p, p.types("nats req --raw nagi.sites.read.orphans ''"))
	if got := p.pages(); got != all {
		t.Errorf("the pages are %s", got)
	}
	p.does("nats req --raw nagi.sites.act.orphans-adopt", "<list>", orphans.List, "<adoptable>", "1",
		"<owner>", "young1", "<key>", "old0")
	p.becomes(`"kumori/ownerkey":"old0"`, "nats kv get --raw pages young1")
	orphans = answer[orphaned](p, p.types("nats req --raw nagi.sites.read.orphans ''"))
	p.does("nats req --raw nagi.sites.act.orphans-delete", "<list>", orphans.List, "<count>", "1")
	if got := p.pages(); got != "between0 between1 long old0 old1 young0 young1" {
		t.Errorf("the pages are %s", got)
	}

	// The rest goes.
	p.becomes(`"count":1,`, "nats req --raw nagi.sites.read.brake-list ''")
	p.does("nats kv put sites-status _nagi.release", "<engagement>", brake.Engagement, "<count>", "1")
	p.becomes(`"engaged":false`, "nats req --raw nagi.sites.read.brake-list ''")
	p.becomes("between0 between1 old0 old1 young0 young1", "echo $(nats kv ls pages | sort)")

	// The status bucket is lost, without a backup.
	p.does("nats stream edit -f KV_sites --allow-msg-ttl")
	instance := strings.TrimSpace(p.types("nats kv get --raw sites-status _nagi.instance"))
	p.stop()
	p.types("nats stream rm -f KV_sites-status")
	p.buckets()
	p.starts()
	p.does("nats kv put sites-status _nagi.instance", "<id>", instance)
	p.becomes(`"phase":"Synced"`, "nats kv get --raw sites-status young0")
	if got := p.pages(); got != "between0 between1 old0 old1 young0 young1" {
		t.Errorf("the pages are %s", got)
	}
	for _, command := range p.page {
		if !p.run[command] {
			t.Errorf("%s has a command that was not run: %s", restoringPage, command)
		}
	}
}
