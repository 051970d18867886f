package notify

// Found is what one look after another finds of many things, such as the sweeps of a cache. What the look before found
// is no news. The zero Found is ready. It remembers as much as one look finds.
type Found struct {
	before, now map[string]struct{}
	news        []string
}

// MostNamed is how many of many things one line of a log names.
const MostNamed = 10

// Begin begins a look. One that did not end is forgotten.
func (f *Found) Begin() { f.now, f.news = nil, nil }

// Add notes that this look finds something.
func (f *Found) Add(name string) {
	if !f.Before(name) && len(f.news) < MostNamed {
		f.news = append(f.news, name)
	}
	if f.now == nil {
		f.now = map[string]struct{}{}
	}
	f.now[name] = struct{}{}
}

// Before reports whether the look before found it.
func (f *Found) Before(name string) bool {
	_, before := f.before[name]
	return before
}

// End ends a look. It names the first that are news.
func (f *Found) End() (first []string) {
	first = f.news
	f.before, f.now, f.news = f.now, nil, nil
	return first
}
