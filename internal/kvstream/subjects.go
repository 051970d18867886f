// Package kvstream knows how a key-value bucket lies in a stream of JetStream: under which subjects its documents are,
// which server can do what with them, why a server refuses to make the stream, and what is a reply of the server where
// a document was expected.
//
// Subjects first, the rest in files of their own.
//
// The stream KV_b of a bucket that was made as a bucket stores key k under $KV.b.k, and that is where writers put it.
// Other streams of that name exist, and none of them is an error of the server: a mirror keeps the subjects of its
// origin, so does a source without a subject transform, and a transform of the stream itself stores under another
// subject than the one that was published. A reader who filters by $KV.b.> gets nothing from these, and no error.
//
// The rules:
//
//   - What a stream stores are the subjects that it takes, as its transform leaves them, and what its mirror or its
//     sources bring.
//   - If any of that is below $KV.b., the bucket's documents are there.
//   - Else, if all keys that it stores are below one $KV.o., the documents are there, and the bucket can only be read:
//     who writes to $KV.b. reaches no stream, and who writes to $KV.o. writes to another one.
//   - Else the stream keeps no documents of a bucket.
package kvstream

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamPrefix  = "KV_"
	subjectPrefix = "$KV."
)

// Stream is what a stream's configuration says about subjects, in the form of the JetStream API.
type Stream struct {
	Name      string     `json:"name"`
	Subjects  []string   `json:"subjects"`
	Transform *Transform `json:"subject_transform"`
	Mirror    *Origin    `json:"mirror"`
	Sources   []*Origin  `json:"sources"`
}

// Transform is how a stream renames what it stores. An empty Source means everything.
type Transform struct {
	Source      string `json:"src"`
	Destination string `json:"dest"`
}

// Origin is the stream that a mirror copies, or that a stream takes messages from.
type Origin struct {
	Name       string      `json:"name"`
	Filter     string      `json:"filter_subject"`
	Transforms []Transform `json:"subject_transforms"`
}

// StreamOf returns what a configuration of the client says.
func StreamOf(c jetstream.StreamConfig) Stream {
	s := Stream{Name: c.Name, Subjects: c.Subjects}
	if t := c.SubjectTransform; t != nil {
		s.Transform = &Transform{t.Source, t.Destination}
	}
	if c.Mirror != nil {
		s.Mirror = originOf(c.Mirror)
	}
	for _, source := range c.Sources {
		s.Sources = append(s.Sources, originOf(source))
	}
	return s
}

func originOf(s *jetstream.StreamSource) *Origin {
	o := &Origin{Name: s.Name, Filter: s.FilterSubject}
	for _, t := range s.SubjectTransforms {
		o.Transforms = append(o.Transforms, Transform{t.Source, t.Destination})
	}
	return o
}

// Documents is where the documents of a bucket are.
type Documents struct {
	// Prefix is what the subject of each document's message begins with, and its key follows: "$KV.<bucket>.".
	Prefix string
	// ReadOnly says that what is published under Prefix does not become a document of this stream; Why says how the
	// documents come there.
	ReadOnly bool
	Why      string
	// Guessed says that only the name of the origin tells the prefix. The origin may itself be a mirror, and then its
	// messages are of yet another bucket.
	Guessed bool
	// Others are the subjects of documents that the stream keeps below other prefixes, separated by commas: whoever
	// reads the bucket does not see them.
	Others string
}

// FindDocuments returns where the stream keeps the documents of the bucket, or an error that says what it keeps
// instead.
func FindDocuments(bucket string, s Stream) (Documents, error) {
	own := subjectPrefix + bucket + "."
	kept := s.kept()
	var prefixes []string
	guessed := false
	for _, k := range kept {
		if overlap(k.subject, own+">") {
			return s.own(own, k, kept), nil
		}
		prefix, ok := PrefixOf(k.subject)
		if !ok {
			continue
		}
		guessed = guessed || k.guessed
		if !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	if len(prefixes) == 1 {
		return Documents{Prefix: prefixes[0], ReadOnly: true, Why: s.why(), Guessed: guessed}, nil
	}
	return Documents{}, s.refusal(bucket, kept)
}

// own is for a stream that keeps documents under the bucket's own name.
func (s Stream) own(own string, k kept, all []kept) Documents {
	d := Documents{Prefix: own, Guessed: k.guessed}
	takes := func(subject string) bool { return overlap(subject, own+">") }
	if s.Mirror != nil || !slices.ContainsFunc(s.Subjects, takes) {
		d.ReadOnly, d.Why = true, s.why()
	}
	var others []string
	for _, k := range all {
		if _, documents := PrefixOf(k.subject); documents && !takes(k.subject) {
			others = append(others, k.subject)
		}
	}
	d.Others = strings.Join(others, ", ")
	return d
}

// refusal says what a stream keeps that has no documents, and what to do.
func (s Stream) refusal(bucket string, all []kept) error {
	var subjects []string
	for _, k := range all {
		subjects = append(subjects, k.subject)
	}
	keeps := "no subject at all"
	if len(subjects) > 0 {
		keeps = strings.Join(subjects, ", ")
	}
	return fmt.Errorf("the stream %s keeps no documents of the bucket: it stores %s and not %s%s.> (%s): "+
		"make it as a bucket (with nats kv add, or CreateKeyValue), or give it that subject, "+
		"or its mirror or source a subject transform to it",
		s.Name, keeps, subjectPrefix, bucket, s.why())
}

// why says how messages come into the stream, as far as they do not under the bucket's own subject.
func (s Stream) why() string {
	switch {
	case s.Mirror != nil:
		return "it is a mirror of " + s.Mirror.Name
	case len(s.Sources) > 0 && len(s.Subjects) == 0:
		var names []string
		for _, source := range s.Sources {
			names = append(names, source.Name)
		}
		return "it only takes what its sources bring, of " + strings.Join(names, ", ")
	case s.Transform != nil:
		return fmt.Sprintf("its subject transform stores %s as %s", s.Transform.source(), s.Transform.Destination)
	}
	return "it takes " + strings.Join(s.Subjects, ", ")
}

func (t Transform) source() string {
	if t.Source == "" {
		return ">"
	}
	return t.Source
}

// kept is a pattern of subjects that a stream stores.
type kept struct {
	subject string
	guessed bool // by the name of the origin
}

// kept returns the patterns of what the stream stores.
func (s Stream) kept() (all []kept) {
	taken := make([]kept, 0, len(s.Subjects))
	for _, subject := range s.Subjects {
		taken = append(taken, kept{subject: subject})
	}
	if s.Mirror != nil {
		taken = s.Mirror.brings()
	}
	for _, source := range s.Sources {
		taken = append(taken, source.brings()...)
	}
	if s.Transform == nil {
		return taken
	}
	for _, k := range taken {
		if overlap(s.Transform.source(), k.subject) {
			all = append(all, kept{pattern(s.Transform.Destination), k.guessed})
		}
		if !covers(s.Transform.source(), k.subject) {
			all = append(all, k)
		}
	}
	return all
}

// brings returns the patterns of what comes from an origin.
func (o *Origin) brings() (all []kept) {
	for _, t := range o.Transforms {
		if t.Destination == "" { // it only filters
			t.Destination = t.source()
		}
		all = append(all, kept{subject: pattern(t.Destination)})
	}
	if len(all) > 0 {
		return all
	}
	if o.Filter != "" {
		return []kept{{subject: o.Filter}}
	}
	if bucket, is := strings.CutPrefix(o.Name, streamPrefix); is {
		return []kept{{subject: subjectPrefix + bucket + ".>", guessed: true}}
	}
	return []kept{{subject: "the subjects of " + o.Name}}
}

// computed is a token of a destination that the server fills in.
var computed = regexp.MustCompile(`^\$[0-9]+$|\{\{`)

// pattern turns the destination of a transform into a filter: whatever is computed stands for any token.
func pattern(destination string) string {
	tokens := strings.Split(destination, ".")
	for i, token := range tokens {
		if i > 0 && computed.MatchString(token) { // no key begins with what is computed
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// PrefixOf returns the prefix of a bucket's documents from the subject of one of them, or of several.
func PrefixOf(subject string) (prefix string, ok bool) {
	below, ok := strings.CutPrefix(subject, subjectPrefix)
	if !ok {
		return "", false
	}
	bucket, key, ok := strings.Cut(below, ".")
	if !ok || key == "" || bucket == "" || strings.ContainsAny(bucket, "*>") {
		return "", false
	}
	return subjectPrefix + bucket + ".", true
}

// overlap reports whether some subject matches both patterns.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] == ">" || bs[i] == ">":
			return true
		case as[i] != bs[i] && as[i] != "*" && bs[i] != "*":
			return false
		}
	}
}

// covers reports whether each subject that matches b matches a.
func covers(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] == ">":
			return true
		case bs[i] == ">", as[i] != bs[i] && as[i] != "*":
			return false
		}
	}
}
