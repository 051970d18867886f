package queue

// group is a number for a group of keys while the queue knows any of them; 0: there are no groups.
type group int32

// groups numbers the groups that have keys. An entry has a number, not a name, so that it stays small. The queue's lock
// guards it, apart from of.
type groups struct {
	of    func(key string) string // names the group of a key; nil: there are no groups
	byID  []groupState            // by number, less one
	ids   map[string]group
	spare []group // numbers of groups that are gone
}

type groupState struct {
	name string
	keys int // that the queue knows
}

// name is that of a key's group. It is called without the lock, because the function is a user's.
func (g *groups) name(key string) string {
	if g.of == nil {
		return ""
	}
	return g.of(key)
}

// join counts a key that the queue begins to know.
func (g *groups) join(name string) group {
	if g.of == nil {
		return 0
	}
	id, known := g.ids[name]
	if !known {
		if last := len(g.spare) - 1; last >= 0 {
			id, g.spare = g.spare[last], g.spare[:last]
		} else {
			g.byID = append(g.byID, groupState{})
			id = group(len(g.byID))
		}
		if g.ids == nil {
			g.ids = map[string]group{}
		}
		g.ids[name] = id
		g.byID[id-1].name = name
	}
	g.byID[id-1].keys++
	return id
}

// leave counts a key that the queue forgets.
func (g *groups) leave(id group) {
	if id == 0 {
		return
	}
	state := &g.byID[id-1]
	if state.keys--; state.keys > 0 {
		return
	}
	delete(g.ids, state.name)
	state.name = ""
	g.spare = append(g.spare, id)
	if len(g.ids) == 0 && len(g.byID) > spareEntries {
		g.byID, g.ids, g.spare = nil, nil, nil
	}
}
