// Package registry is where tools find the kinds that there are: which bucket holds the documents of a kind, where
// their status is, what a document looks like, which columns a list of them has, and which controllers look after them.
//
// Controllers publish that with the option [Publish], into the bucket "nagi-kinds":
//
//	controller.New("websites", websites, r, registry.Publish(registry.Options{}))
//
// Tools read it with [List] and [Get], or with any client of NATS: each value is JSON, as docs/kinds.md says for who
// writes a tool in another language.
//
// The registry is for those who look. No controller depends on it: what cannot be published is warned about once, and
// holds up nothing.
package registry
