package tree

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/registry"
)

// mostExplained is about how many documents of a tree controllers are asked: they answer fifty requests in a second.
const mostExplained = 40

// external adds what is behind an API, which only the controllers of a document ask: they say what it owns there, as
// they listed it last, what is under way, and what the document waits for.
func (g *growth) external(ctx context.Context, n *Node, kind *kinds.Kind, o owns) {
	for _, c := range kind.Controllers {
		if !slices.Contains(c.Owns, o.Resource) {
			continue
		}
		said, why := g.asked(ctx, c.Name, kind, n.Key)
		at := -1
		if why == "" {
			why = "its controller is of a version that does not say what a document owns there"
			at = slices.IndexFunc(said.Outside, func(api controller.OutsideOwned) bool { return api.Kind == o.Kind })
		}
		if at < 0 {
			g.add(n, note(registry.InExternal, o.Kind, "not looked at: only the controller asks that API; "+why))
			continue
		}
		for _, child := range append(OutsideNodes(said, said.Outside[at]), OutsideNote(said, said.Outside[at])) {
			g.add(n, child)
		}
	}
}

// OutsideNodes are what a document owns behind one API, and what is under way there, as its controller knows it.
func OutsideNodes(e *controller.Explanation, api controller.OutsideOwned) (all []*Node) {
	for _, r := range api.Resources {
		child := &Node{In: registry.InExternal, Kind: api.Kind, Key: r.ID, State: "Listed", Health: Good}
		if r.Version != "" {
			child.Note = "version " + r.Version
		}
		switch {
		case e.Deleting:
			child.State, child.Health, child.Since, child.Message = "Deleting", Waiting, e.Since, e.Error
			child.Note = "its delete is owed: it is still there, as its controller listed it last"
			if e.Error != "" {
				child.Health = Bad
			}
		case !r.DeletedAt.IsZero():
			child.State, child.Health, child.Since = "Deleting", Waiting, r.DeletedAt
			child.Note = "the API has answered that it deletes it, and lists it still"
		case !api.AwaySince.IsZero():
			child.Health = Unknown
		}
		all = append(all, child)
	}
	for _, c := range api.Open {
		child := note(registry.InExternal, c.Resource,
			fmt.Sprintf("%s was begun, and is not seen to be done", c.Action))
		child.State, child.Health, child.Since = doing[c.Action], Waiting, c.Since
		if c.Operation != "" {
			child.Note += ": operation " + c.Operation
		}
		all = append(all, child)
	}
	return all
}

var doing = map[external.Action]string{
	external.ActionCreate: "Creating", external.ActionUpdate: "Updating", external.ActionDelete: "Deleting",
}

// OutsideNote says of what a document owns behind an API how old the news of it is, and what the document waits for
// there. It has a state if the API is away or the document waits.
func OutsideNote(e *controller.Explanation, api controller.OutsideOwned) *Node {
	all := note(registry.InExternal, api.Kind, "its controller has not listed that API yet")
	if !api.ListedAt.IsZero() {
		all.Note = "as its controller listed it at " + api.ListedAt.UTC().Format(time.RFC3339)
		if api.All == 0 {
			all.Note = "nothing, " + all.Note
		}
	}
	if more := api.All - len(api.Resources); more > 0 {
		all.Note = joined(fmt.Sprintf("%d more, which are not named", more), all.Note)
	}
	if !api.AwaySince.IsZero() {
		all.State, all.Health, all.Since = "Away", Bad, api.AwaySince
		all.Note = joined(fmt.Sprintf("that API is away since %s", api.AwaySince.UTC().Format(time.RFC3339)), all.Note)
	}
	switch api.Kind {
	case e.AwaitsAPI:
		all.State, all.Health, all.Since = "Away", Bad, e.Since
		all.Note = joined("the document waits for that API, which is away", all.Note)
	case e.AwaitsTurn:
		all.State, all.Health, all.Since = "Waiting", Waiting, e.Since
		all.Note = joined("the document waits for its turn at that API", all.Note)
	}
	return all
}

// asked is what a controller says of a key, or why it does not.
func (g *growth) asked(
	ctx context.Context, name string, kind *kinds.Kind, key string,
) (e *controller.Explanation, why string) {
	if g.Controllers == nil {
		return nil, "it is not asked"
	}
	a, known := g.Controllers.known(name, key) // one document may own things behind several APIs
	if !known && g.explained == mostExplained {
		return nil, fmt.Sprintf("it was not asked about more than %d documents", mostExplained)
	}
	if !known {
		g.explained++
		a = g.Controllers.explain(ctx, name, kind, key)
	}
	if a.err != nil {
		return nil, a.err.Error()
	}
	return &a.Explanation, ""
}
