package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// missing lists the sources of which something may have happened that no key has heard of: those that do not work, and
// those whose mapper has failed. Which keys that concerns is not known, so it is said of all.
func (x *Explainer) missing() (missing []MissingNews) {
	problems := x.Problems()
	for _, s := range x.Sources {
		if problem, ok := problems[s.String()].(*health.Problem); ok {
			missing = append(missing, MissingNews{
				Source: s.String(), Since: problem.Since, Why: printable.Message(problem.Error()),
			})
		} else if since, why := suspect(s); why != nil {
			missing = append(missing, MissingNews{
				Source: s.String(), Since: since, Why: printable.Message(why.Error()),
			})
		}
		if behind, is := x.Mappings.BehindIn(s); is {
			missing = append(missing, MissingNews{
				Source: s.String(), Since: behind.Since, Why: printable.Message(fmt.Sprintf(
					"the mapper has failed for %d of its objects, and is called again: %v",
					behind.Objects, behind.Err)),
			})
		}
	}
	return missing
}

// suspect is why a source may show what is not there any more, such as after a purge through the API; nil while nothing
// says so.
func suspect(s source.Source) (since time.Time, why error) {
	if cached, ok := s.(source.Cached); ok {
		return cached.Suspect()
	}
	return time.Time{}, nil
}

// missingNews names the sources whose news is missing.
func (e *Explanation) missingNews() string {
	var says []string
	for _, m := range e.Missing {
		why := ""
		if m.Why != "" {
			why = ": " + m.Why
		}
		says = append(says, fmt.Sprintf("the news of %s is missing since %s%s", m.Source, at(m.Since), why))
	}
	return strings.Join(says, "; ")
}

// ToNamespace is the explanation for readers who may ask about one namespace only: without who leads, and
// without why news is missing, which may name objects of others.
func (e Explanation) ToNamespace() Explanation {
	e.Leader, e.Missing = "", slices.Clone(e.Missing)
	e.Member, e.confined = "", true
	for i := range e.Missing {
		e.Missing[i].Why = ""
	}
	e.Says = e.sentence()
	return e
}
