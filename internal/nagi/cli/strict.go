package cli

import (
	"fmt"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/spf13/cobra"
)

// checking is how documents are checked before they are written.
type checking struct{ noValidate, strict bool }

// register adds the flags for commands that write.
func (v *checking) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.noValidate, "no-validate", false, "do not check documents against the schema of their kind")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "refuse members that the kind does not know, as kubectl does by "+
		"default; else they are told, and kept as they are")
	cmd.MarkFlagsMutuallyExclusive("no-validate", "strict")
}

// unknownIn are the members of a document that its kind does not know, without those that it had before.
func unknownIn(k *kinds.Kind, document, before map[string]any) (found []kinds.UnknownMember) {
	had := map[string]bool{}
	for _, u := range k.Unknown(before) {
		had[u.Path] = true
	}
	for _, u := range k.Unknown(document) {
		if !had[u.Path] {
			found = append(found, u)
		}
	}
	return found
}

// kept says of a member that nobody knows that it is written all the same.
func kept(k *kinds.Kind, u kinds.UnknownMember) string {
	if u.Meant != "" {
		return u.About(k.Kind) + " It is kept as it is"
	}
	return u.About(k.Kind) + ": it is kept as it is"
}

// unknownMembers returns what is wrong with members that are not known, or else tells of them. at is where a path is.
func (t *tool) unknownMembers(k *kinds.Kind, all []kinds.UnknownMember, wrong bool, at func(path string) string) (
	lines []string,
) {
	for _, u := range all {
		if wrong {
			lines = append(lines, fmt.Sprintf("%s: %s", at(u.Path), u.About(k.Kind)))
			continue
		}
		t.Notef("%s: %s\n", at(u.Path), kept(k, u))
	}
	return lines
}
