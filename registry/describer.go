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
)

// bucketNames are the names that a bucket can have.
var bucketNames = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

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
	found, why := b.find(ctx, of)
	name, key := printable.Quote(of.Name), Key(p.described.Kind, p.described.APIVersion)
	about := []any{"describer", name, "registry", Bucket, "key", key, "why", why}
	logger := klog.FromContext(ctx)
	switch tell := found > isThere && p.doubted.Tell(name+why); {
	case found == isNotThere:
		if tell {
			logger.Error(nil, "The registry says that a controller describes the kind which is not there: this one "+
				"describes it from now on. Look who may write the registry", about...)
			p.engine.EventOfSelf(engine.EventWarning, ReasonDescriberNotThere, fmt.Sprintf(
				"key %s of bucket %s said that the controller %s describes the kind, and %s: this one describes it "+
					"from now on", key, Bucket, name, why))
		}
		return &of
	case tell:
		logger.Info("The registry says that another controller describes the kind; whether that is there cannot be "+
			"told, and the entry stays", about...)
	}
	return nil
}
