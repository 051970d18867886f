package prune

import (
	"fmt"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// doubt says what speaks against deleting the targets. "" is nothing.
func (p *Pruner) doubt(v source.View, key string, targets []target) string {
	stream := p.Primaries.Stream().Created
	for _, t := range targets {
		why := p.doubtWriter(t)
		if why == "" {
			why = doubtRevision(v, t, stream)
		}
		if why != "" {
			return fmt.Sprintf("%s %q, at revision %d, does not want %v any more, which %s",
				p.Kind, key, v.Revision, t, why)
		}
	}
	return ""
}

// doubtWriter says why a target may be another controller's: another has written it for an owner of this installation,
// or it names nobody, and the id of the installation was given, so that another controller may have it, too. An id that
// was made here only this controller has. What older versions wrote names nobody; where that matters, what is wanted is
// written once more, see current.Writer.
func (p *Pruner) doubtWriter(t target) string {
	const advice = "Two controllers with one id of the installation each take for their own what the other makes: " +
		"give each an id of its own (WithInstance, and %s in its status bucket). A release deletes what is held"
	switch writer := owner.WriterOf(t.object); {
	case writer == p.Writer:
		return ""
	case writer != "":
		return fmt.Sprintf("the controller with the status bucket %s has written, for the same id of the installation "+
			"(%q). "+advice, printable.Quote(writer), p.Claim().Instance, record.KeyInstance)
	case p.Shared:
		return fmt.Sprintf("does not tell which controller wrote it, and another may have the same id of the "+
			"installation (%q), which was given. "+advice, p.Claim().Instance, record.KeyInstance)
	}
	return ""
}

// doubtRevision says why the documents may have been restored: a target was written for a later one.
func doubtRevision(v source.View, t target, stream string) string {
	stamp := owner.StampOf(t.object)
	if stamp.IsNone() || stamp.Stream == stream && stamp.Revision <= v.Revision {
		return ""
	}
	return fmt.Sprintf("was written for revision %d of it (stream %s, now %s): the documents may have been restored "+
		"to an earlier state", stamp.Revision, stamp.Stream, stream)
}
