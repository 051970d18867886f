package jsonshape

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A field is marked by the struct tag `nagi:"secret"`.
const (
	tagName = "nagi"
	marked  = "secret"
)

// Secrets are the secret members of the JSON documents of a type, which Drop leaves out. Nil means that there are none.
//
// What may be a secret is taken for one. Packages of JSON differ in which member a field is. A member is secret if it
// is by any of them, and where a method makes the JSON of a type with secrets, what the type's fields do not explain is
// left out, too.
type Secrets struct {
	tagged *secretNode // a graph, with cycles where types have them
	paths  *secretNode // a tree
}

// secretNode says what is secret in one JSON value: something is. Nil says that nothing is.
type secretNode struct {
	secret  bool
	takes   forms                  // another form is secret
	members map[string]*secretNode // of an object, by name; nil for one that has no secrets
	each    *secretNode            // of an array, or of an object of any names: all elements
	rest    *secretNode            // of an object: members without a name in members
	opaque  bool                   // a method made it: members of a struct that are not known are secret

	// What types have that is not in their JSON, unless a method writes it.
	keys, hidden *secretNode
}

// member returns what is secret in a member.
func (n *secretNode) member(name string) *secretNode {
	found, known := n.lookUp(name)
	if !known && n.opaque && n.members != nil {
		return redacted
	}
	return found
}

// lookUp returns what is secret in a member, and whether it has a name that is known. Names are compared as
// encoding/json does: without regard to case, if there is no equal one.
func (n *secretNode) lookUp(name string) (found *secretNode, known bool) {
	if found, ok := n.members[name]; ok {
		return found, true
	}
	for other, member := range n.members {
		if strings.EqualFold(other, name) {
			found, known = either(found, member), true
		}
	}
	if known {
		return either(found, n.rest), true
	}
	return either(n.each, n.rest), false
}

// either is for a value of which it is not known which of two nodes it has.
func either(a, b *secretNode) *secretNode {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return redacted
}

// knownSecrets are the results of SecretsOf, which are the same each time.
var knownSecrets sync.Map

type secretsResult struct {
	fields *Secrets
	err    error
}

// SecretsOf returns what is tagged as secret in a type, at any depth that its JSON shows. The error is about a tag that
// says something else.
func SecretsOf(t reflect.Type) (*Secrets, error) {
	if found, ok := knownSecrets.Load(t); ok {
		return found.(secretsResult).fields, found.(secretsResult).err
	}
	of := secretsOf(t, nil)
	knownSecrets.Store(t, of)
	return of.fields, of.err
}

func secretsOf(t reflect.Type, dynamic []reflect.Type) (of secretsResult) {
	b := newSecretBuilder(dynamic)
	root := b.root(t)
	if of.err = b.err; of.err == nil && root != nil {
		of.fields = &Secrets{tagged: root}
	}
	return of
}

// Has reports whether a member of the documents, or something in it, is secret.
func (f *Secrets) Has(member string) bool {
	if f == nil {
		return false
	}
	for _, n := range []*secretNode{f.tagged, f.paths} {
		if n == nil {
			continue
		}
		if found, _ := n.lookUp(member); found != nil {
			return true
		}
	}
	return false
}

// SecretMembers returns the names of the secret members of a struct, in the order of the names.
func SecretMembers(t reflect.Type) (names []string) {
	named := map[string]*parts{}
	addFields(t, named, &parts{})
	for name, of := range named {
		if of.secret {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsSecret reports whether a field has the tag that makes it secret.
func IsSecret(f reflect.StructField) bool { return f.Tag.Get(tagName) == marked }

// Within returns how many steps of a path lead to the first secret on it, or the length of the path if there is none.
// The elements of arrays are steps of their own.
func (f *Secrets) Within(path []string) int {
	if f == nil {
		return len(path)
	}
	return min(f.tagged.within(path), f.paths.within(path))
}

func (n *secretNode) within(path []string) int {
	for i, step := range path {
		if n == nil {
			return len(path)
		}
		if n = n.member(step); n != nil && n.secret {
			return i + 1
		}
	}
	return len(path)
}
