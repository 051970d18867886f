package entity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Strictness says what becomes of a document that decodes, but has what is not read: a member that T does
// not know, that is there twice, or whose name has another case; text that is no UTF-8, or has the escape of one
// surrogate without the other one (\ud800), of which a typed write makes U+FFFD; a kind or apiVersion that is not the
// client's; ownerReferences and finalizers, which have no effect in NATS.
type Strictness uint8

const (
	// StrictWarn is the default: the document counts, and a controller whose primary it is keeps a condition of type
	// ConditionDocumentWarnings in the record, and records an event. See also Client.DocumentWarnings.
	StrictWarn Strictness = iota
	// StrictOff warns of nothing.
	StrictOff
	// StrictRefuse makes the document invalid.
	StrictRefuse
)

// String is the name of the constant.
func (s Strictness) String() string {
	switch s {
	case StrictWarn:
		return "StrictWarn"
	case StrictOff:
		return "StrictOff"
	case StrictRefuse:
		return "StrictRefuse"
	}
	return fmt.Sprintf("Strictness(%d)", uint8(s))
}

// ConditionDocumentWarnings is the condition in the record of a document that has what is not read. Its
// status is True, its message names the paths. It goes when there is nothing left to warn about.
const ConditionDocumentWarnings = "DocumentWarnings"

// The reasons of ConditionDocumentWarnings.
const (
	ReasonUnknownMembers   = "UnknownMembers"   // T does not know them
	ReasonMiscasedMembers  = "MiscasedMembers"  // their names have another case
	ReasonDuplicateMembers = "DuplicateMembers" // they are there more than once
	ReasonInvalidUTF8      = "InvalidUTF8"      // text that is none, or the escape of half a character (\ud800)
	ReasonOtherType        = "OtherType"        // kind or apiVersion are not the client's
	ReasonOwnerReferences  = "OwnerReferences"  // without effect
	ReasonFinalizers       = "Finalizers"       // without effect
	ReasonSeveralWarnings  = "Several"          // of these
)

// DocumentWarnings are what there is to warn about in one revision of a document.
type DocumentWarnings struct {
	// Reason is one of those of ConditionDocumentWarnings.
	Reason string
	// Message names the paths, and what was meant: "spec.Title: did you mean title?". It has no values of the document.
	// Names of members are printable, and the whole is bounded.
	Message string
}

// warning is about one member.
type warning struct{ reason, path, why string }

func (w warning) String() string { return w.path + ": " + w.why }

// summary makes one of several warnings; more is how many there are besides. Nil if there are none.
func summary(warnings []warning, more int) *DocumentWarnings {
	if len(warnings) == 0 {
		return nil
	}
	s := &DocumentWarnings{Reason: warnings[0].reason}
	var text []string
	for _, w := range warnings {
		if w.reason != s.Reason {
			s.Reason = ReasonSeveralWarnings
		}
		text = append(text, w.String())
	}
	if more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	s.Message = printable.Message(strings.Join(text, "; "))
	return s
}

// warningOf tells of an odd member.
func (c *codec[T]) warningOf(p jsonshape.Problem) warning {
	path := p.Path
	if secret := c.secrets.Within(path); secret < len(path) { // the names below a secret may be secrets
		return warning{ReasonUnknownMembers, pathText(path[:secret]), "something in it is odd; more is not told, " +
			"because it is secret"}
	}
	w := warning{path: pathText(path)}
	switch p.Kind {
	case jsonshape.Miscased:
		w.reason, w.why = ReasonMiscasedMembers, "did you mean "+p.Meant+"?"
	case jsonshape.Duplicate:
		w.reason, w.why = ReasonDuplicateMembers, "it is there more than once"
	case jsonshape.InvalidUTF8:
		w.reason, w.why = ReasonInvalidUTF8, invalidWhy
	case jsonshape.HalfCharacter:
		w.reason, w.why = ReasonInvalidUTF8, halfWhy
	default:
		w.reason, w.why = ReasonUnknownMembers, unknownWhy
		if p.Meant != "" {
			w.why += ", did you mean " + p.Meant + "?"
		}
	}
	return w
}

// longestName is how much of the name of a member is shown.
const longestName = 64

func pathText(path []string) string {
	var text strings.Builder
	for i, name := range path {
		if i > 0 && !strings.HasPrefix(name, "[") {
			text.WriteByte('.')
		}
		if len(name) > longestName {
			name = name[:longestName] + "…"
		}
		text.WriteString(printable.Text(name))
	}
	return printable.Text(text.String())
}

const (
	unknownWhy    = "nobody knows it"
	invalidWhy    = "it is no valid UTF-8"
	halfWhy       = "it has the escape of half a character, such as \\ud800: who decodes it gets U+FFFD"
	finalizersWhy = "finalizers have no effect in NATS: the record of a primary is its finalizer. When the document " +
		"is deleted, the reconciler is called with OperationDelete, and the record goes after that has succeeded"
	ownerReferencesWhy = "they have no effect in NATS: owners are named by annotations, which SetOwner sets"
)

// oddity is what is odd about one revision of a document.
type oddity struct {
	revision   uint64
	kept       *jsonshape.Kept // that an update keeps: unknown ones, and zeros that T leaves out; nil: none
	forgotten  bool            // there are some to be kept, which took too much memory
	finalizers []string
	warnings   *DocumentWarnings // nil: none
	refusal    error             // why StrictRefuse refuses it
	expires    int64             // when it expires by its writer's TTL, in nanoseconds; 0: not; or neverExpires
}

// look returns what is odd about a document that was decoded into obj, before it is stamped; nil if nothing is.
func (c *codec[T]) look(key string, data []byte, obj T) *oddity {
	finalizers, owners, otherType := obj.GetFinalizers(), obj.GetOwnerReferences(), c.otherType(obj)
	if len(finalizers) == 0 && len(owners) == 0 && otherType == nil && c.members.Clean(data) {
		return nil
	}
	found, _ := c.members.Look(data) // it was decoded
	var warnings []warning
	if otherType != nil {
		warnings = append(warnings, *otherType)
	}
	if len(owners) > 0 {
		warnings = append(warnings, warning{ReasonOwnerReferences, "metadata.ownerReferences", ownerReferencesWhy})
	}
	if len(finalizers) > 0 {
		warnings = append(warnings, warning{ReasonFinalizers, "metadata.finalizers", finalizersWhy})
	}
	for _, p := range found.Problems {
		warnings = append(warnings, c.warningOf(p))
	}
	odd := &oddity{finalizers: slices.Clone(finalizers), kept: c.settled(found.Kept, obj, key)}
	if len(warnings) == 0 {
		if odd.kept == nil {
			return nil // it only looked so
		}
		return odd
	}
	switch c.strict {
	case StrictWarn:
		odd.warnings = summary(warnings, found.More)
	case StrictRefuse:
		first := warnings[0]
		if more := len(warnings) - 1 + found.More; more > 0 {
			first.why += fmt.Sprintf(" (and %d more)", more)
		}
		odd.refusal = newInvalid(c.kind, c.keys.bucket, key, first.path, first.why)
	}
	return odd
}

// settled returns what an update keeps of a document that was decoded into obj: what obj is encoded to leaves it out.
// Of one that cannot be encoded no update is written.
func (c *codec[T]) settled(kept *jsonshape.Kept, obj T, key string) *jsonshape.Kept {
	if !kept.MustSettle() {
		return kept
	}
	encoded, err := c.encodeOnly(obj, key)
	if err != nil {
		return kept
	}
	kept, _ = kept.Settle(encoded) // it was encoded just now
	return kept
}

// otherType is about a kind or apiVersion that is not the client's; nil if there is none. What is empty is none.
func (c *codec[T]) otherType(obj T) *warning {
	gvk := obj.GetObjectKind().GroupVersionKind()
	switch {
	case gvk.Kind != "" && gvk.Kind != c.kind:
		return &warning{ReasonOtherType, "kind", "it is another one than " + c.kind}
	case c.apiVersion != "" && !gvk.GroupVersion().Empty() && gvk.GroupVersion() != c.groupVersion:
		return &warning{ReasonOtherType, "apiVersion", "it is another one than " + c.apiVersion}
	}
	return nil
}
