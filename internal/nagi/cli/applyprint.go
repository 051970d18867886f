package cli

import "fmt"

// pruned is the result for a document of the set that is in no file.
const pruned = "pruned"

// result is what became of a document.
type result struct {
	Kind     string `json:"kind"`
	Bucket   string `json:"bucket"`
	Key      string `json:"key"`
	Result   string `json:"result"`
	Revision uint64 `json:"revision,omitempty"`
	DryRun   bool   `json:"dryRun,omitempty"`
	TTL      string `json:"ttl,omitempty"` // that was set
}

// tell prints what became of a document, and keeps it.
func (a *applying) tell(of target, says string, revision uint64) error {
	r := result{
		Kind: of.kind.Name(), Bucket: of.kind.Bucket, Key: of.key, Result: says, Revision: revision, DryRun: a.dryRun,
	}
	if a.lasts.ttl > 0 && says != pruned {
		r.TTL = a.lasts.ttl.String()
	}
	a.results = append(a.results, r)
	switch a.output {
	case "text":
		if r.TTL != "" {
			says += ", with a TTL of " + r.TTL
		}
		if a.dryRun {
			says += " (dry run)"
		}
		_, err := fmt.Fprintf(a.t.Out, "%s %s\n", of.String(), says)
		return err
	case "name":
		_, err := fmt.Fprintln(a.t.Out, of.String())
		return err
	}
	return nil
}

func (a *applying) print() error {
	switch {
	case len(a.results) == 0:
		return nil
	case a.output == "json":
		return a.t.JSON(a.results)
	case a.output == "yaml":
		return a.t.YAML(a.results)
	}
	return nil
}
