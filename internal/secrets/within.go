package secrets

// Within returns how many steps of a path lead to the first secret on it, or the length of the path if there is none.
// The elements of arrays are steps of their own.
func (f *Fields) Within(path []string) int {
	if f == nil {
		return len(path)
	}
	return min(f.tagged.within(path), f.paths.within(path))
}

func (n *node) within(path []string) int {
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
