// Package taking is the table of who may write what exists. Tests of NATS and of Kubernetes go through the same one.
package taking

import (
	"errors"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/secondary"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The primary that writes, and the one that WithHandOverFrom names.
const (
	Kind, Key = "Site", "home"
	Other     = "away"
)

// Option is what a write asks for.
type Option string

// The options.
const (
	Plain    Option = "plain"
	Adopt    Option = "WithAdopt"
	HandOver Option = "WithHandOverFrom"
)

// Outcome is what comes of a write.
type Outcome string

// The outcomes: it is written and the primary's, or refused with that error and as it was.
const (
	Written Outcome = "written"
	Exists  Outcome = "ResourceExistsError"
	Owned   Outcome = "AlreadyOwnedError"
)

// Case is one write of the primary over what stands there.
type Case struct {
	Name   string
	Option Option
	// Absent says that nothing stands there; else Mark gives it the marks of its owner.
	Absent bool
	Mark   func(obj metav1.Object, instance string)
	Want   Outcome
}

// Cases are all.
func Cases() (cases []Case) {
	owner := func(kind, key, installation string) func(metav1.Object, string) {
		return func(obj metav1.Object, instance string) {
			if installation != "" {
				instance = installation
			}
			entity.SetOwner(obj, kind, key, instance)
		}
	}
	for _, stands := range []struct {
		name                   string
		mark                   func(metav1.Object, string)
		plain, adopt, handOver Outcome
	}{
		{"absent", nil, Written, Written, Written},
		{"no owner", func(metav1.Object, string) {}, Exists, Written, Exists},
		{"mine", owner(Kind, Key, ""), Written, Written, Written},
		{"mine by labels alone", func(obj metav1.Object, instance string) {
			entity.SetOwner(obj, Kind, Key, instance)
			obj.SetAnnotations(nil)
		}, Written, Written, Written},
		{"another primary's", owner(Kind, Other, ""), Owned, Owned, Written},
		{"another primary's, of no installation", func(obj metav1.Object, _ string) {
			entity.SetOwner(obj, Kind, Other, "")
		}, Owned, Owned, Written},
		{"a third primary's", owner(Kind, "third", ""), Owned, Owned, Owned},
		{"another kind's", owner("Shop", Other, ""), Owned, Owned, Owned},
		{"another installation's", owner(Kind, Other, "elsewhere"), Owned, Owned, Owned},
		{"another installation's of my name", owner(Kind, Key, "elsewhere"), Owned, Owned, Owned},
		{"contradicting marks", func(obj metav1.Object, instance string) {
			entity.SetOwner(obj, Kind, Other, instance)
			obj.GetLabels()[entity.OwnerKeyLabel] = "third"
		}, Owned, Owned, Owned},
		{"an owner in part", func(obj metav1.Object, _ string) {
			obj.SetAnnotations(map[string]string{entity.OwnerKindAnnotation: "Shop"})
		}, Exists, Exists, Exists},
	} {
		for option, want := range map[Option]Outcome{
			Plain: stands.plain, Adopt: stands.adopt, HandOver: stands.handOver,
		} {
			cases = append(cases, Case{
				Name: stands.name + ", " + string(option), Option: option,
				Absent: stands.mark == nil, Mark: stands.mark, Want: want,
			})
		}
	}
	return cases
}

// OutcomeOf tells what an error of a write means.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Written
	}
	if _, ok := errors.AsType[*secondary.AlreadyOwnedError](err); ok {
		return Owned
	}
	if _, ok := errors.AsType[*secondary.ResourceExistsError](err); ok {
		return Exists
	}
	return Outcome("another error: " + err.Error())
}
