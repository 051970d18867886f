package tree

import (
	"cmp"
	"time"

	"github.com/nagi-runtime/nagi/registry"
)

// Health says in one word how an object is.
type Health string

// The kinds of health. Unknown is what says nothing of itself.
const (
	Good    Health = "good"
	Waiting Health = "waiting"
	Bad     Health = "bad"
	Unknown Health = "unknown"
)

// Node is an object, or a note about objects that were not looked at. Its texts are as others wrote them.
type Node struct {
	In         string `json:"in,omitempty"` // as registry.Resource.In
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Bucket     string `json:"bucket,omitempty"`   // of a document
	Resource   string `json:"resource,omitempty"` // of an object in Kubernetes: deployments.apps
	// Key is "name" or "namespace/name"; "" if the node is a note alone.
	Key string `json:"key,omitempty"`
	// State is what it says of itself in a word or two; "" if nothing. Message says more where it is not well.
	State   string    `json:"state,omitempty"`
	Health  Health    `json:"health,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Note is what is to be known of how it was found, or of what was not.
	Note string  `json:"note,omitempty"`
	Owns []*Node `json:"owns,omitempty"`

	// Leaves says that what it owns stays when it goes.
	Leaves bool `json:"-"`

	registered bool // the registry has its kind
}

// Name is what to call the object: Website/shop/home, deployments.apps/shop/web.
func (n *Node) Name() string {
	what := n.Kind
	if n.In == registry.InKubernetes {
		what = cmp.Or(n.Resource, n.Kind)
	}
	if n.Key == "" {
		return what
	}
	return what + "/" + n.Key
}

// Argument is the name as commands take it: Website.example.com/shop/home; pages/shop/home-0, with --bucket, of a
// bucket that the registry does not have.
func (n *Node) Argument() string {
	switch {
	case n.In != registry.InNATS || n.Key == "":
		return n.Name()
	case n.registered:
		return registry.Key(n.Kind, n.APIVersion) + "/" + n.Key
	}
	return n.Bucket + "/" + n.Key
}
