package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

// ReasonDescriberNotThere is the reason of the warning event about an entry which says that a controller describes the
// kind that is not there.
const ReasonDescriberNotThere = "DescriberNotThere"

// describerOf returns the part of the other controller that describes what a key holds; false if no other one does.
func describerOf(value []byte, self Controller) (p part, other bool) {
	entry := object{}
	if value == nil || json.Unmarshal(exactly(value, reflect.TypeFor[Entry]()), &entry) != nil {
		return p, false
	}
	parts, err := partsOf(entry["controllers"])
	at := slices.IndexFunc(parts, func(p part) bool { return !p.is(self) && describedBy(entry, p) })
	if err != nil || at < 0 {
		return p, false
	}
	return parts[at], true
}

// evidence is what the server says of a controller that an entry names.
type evidence int

const (
	noAnswerYet evidence = iota // what is so is found out the next time
	isThere                     // its status bucket names it
	isNotThere                  // its status bucket is not there, or names another controller
	isUnknown                   // the server cannot tell, or may not be asked
	isBack                      // this controller has displaced it before, and it describes the kind again
)

// bucketNames are the names that a bucket can have.
var bucketNames = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// mostDisplaced bounds how many controllers a publisher remembers that it has displaced.
const mostDisplaced = 100

// displace remembers that the controller describes the kind no more, because it was not there.
func (p *publisher) displace(of part) {
	id := identity{of.Name, of.StatusBucket}
	if slices.Contains(p.displaced, id) {
		return
	}
	p.displaced = append(p.displaced, id)
	p.displaced = p.displaced[max(0, len(p.displaced)-mostDisplaced):]
}

// find looks whether a controller is there. why is for people; it is said if the answer is more than isThere. The
// server is not asked where the registry is reached otherwise than the primary: the buckets of other controllers may be
// in any account or domain. Nor does a controller displace another one twice: two that both live would take turns.
func (p *publisher) find(ctx context.Context, b *bucket, of part) (found evidence, why string) {
	if p.elsewhere && bucketNames.MatchString(of.StatusBucket) {
		return isUnknown, "Options.JetStream is not that of the primary, so that its status bucket may be in another " +
			"account or domain"
	}
	found, why = b.find(ctx, of)
	if found == isNotThere && slices.Contains(p.displaced, identity{of.Name, of.StatusBucket}) {
		return isBack, fmt.Sprintf("%s; but it describes the kind again, although this controller had displaced it",
			why)
	}
	return found, why
}

// find looks whether a controller is there: a status bucket says whose it is. why is for people; it is said if the
// answer is isNotThere or isUnknown.
func (b *bucket) find(ctx context.Context, p part) (found evidence, why string) {
	quoted := printable.Quote(p.StatusBucket)
	switch {
	case p.StatusBucket == "":
		return isUnknown, "it has no status bucket, which would say so"
	case !bucketNames.MatchString(p.StatusBucket):
		return isNotThere, fmt.Sprintf("no bucket can have the name of its status bucket, %s", quoted)
	}
	over := b.denials.Expect(b.api + messageOf + p.StatusBucket) // it is told here, once
	defer over()
	held, err := b.last(ctx, p.StatusBucket, record.KeyController)
	denied, isDenied := errors.AsType[*denials.Error](err)
	switch {
	case isDenied:
		return isUnknown, fmt.Sprintf("the user may not ask for it: %v (it reads all records of that bucket)", denied)
	case hasCode(err, codeStreamNotFound):
		return isNotThere, fmt.Sprintf("its status bucket, %s, does not exist", quoted)
	case err != nil:
		return noAnswerYet, ""
	case held.value == nil, kvstream.IsReply(nil, held.value):
		return isUnknown, fmt.Sprintf("the key %s of its status bucket, %s, does not say whose that is",
			record.KeyController, quoted)
	}
	if holder := strings.TrimSpace(string(held.value)); holder != p.Name {
		return isNotThere, fmt.Sprintf("its status bucket, %s, is that of the controller %s", quoted,
			printable.Quote(holder))
	}
	return isThere, ""
}

// doubt returns the controller that what the key holds names as the one that describes the kind, if it is not there.
// It tells of that, or that it cannot be told, once as long as it is the same. Who may write the registry, and nothing
// else, can invent a controller.
func (p *publisher) doubt(ctx context.Context, b *bucket, value []byte) (invented *part) {
	self := p.described.Controllers[0]
	of, other := describerOf(value, self)
	if !other {
		return nil
	}
	found, why := p.find(ctx, b, of)
	name, key := printable.Quote(of.Name), Key(p.described.Kind, p.described.APIVersion)
	about := []any{"describer", name, "registry", Bucket, "key", key, "why", why}
	logger := klog.FromContext(ctx)
	switch tell := found > isThere && p.doubted.Tell(name+why); {
	case found == isNotThere:
		if tell {
			logger.Error(nil, "The registry says that a controller describes the kind which is not there: this one "+
				"describes it from now on. "+ifNotThere, about...)
			p.engine.EventOfSelf(engine.EventWarning, ReasonDescriberNotThere, fmt.Sprintf(
				"key %s of bucket %s said that the controller %s describes the kind, and %s: this one describes it "+
					"from now on. %s", key, Bucket, name, why, ifNotThere))
		}
		return &of
	case tell && found == isBack:
		logger.Info("The registry says again that another controller describes the kind which is not there: so it "+
			"lives, and the entry stays. "+ifNotThere, about...)
	case tell:
		logger.Info("The registry says that another controller describes the kind; whether that is there cannot be "+
			"told, and the entry stays", about...)
	}
	return nil
}

// ifNotThere are the reasons for which a controller is not there.
const ifNotThere = "Its status bucket was removed or is in another account or domain, or it never was: then look who " +
	"may write the registry"
