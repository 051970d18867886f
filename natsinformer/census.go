package natsinformer

// census completes a list of a stream that is too busy for a fence's cheap proofs: the server's subjects are listed, and
// those that have not arrived are read one by one. What was known before and has not arrived is read as well, because
// the pages of the list are not of one moment.
type census struct {
	w    *worker
	s    *session
	next *keys
	old  *keys

	offset  int
	listed  bool
	missing map[string]bool
	asked   int
	err     error
}

// censusParallel is how many keys are asked for at a time.
const censusParallel = 64

func newCensus(w *worker, s *session, next, old *keys) *census {
	c := &census{w: w, s: s, next: next, old: old, missing: map[string]bool{}}
	c.page()
	return c
}

func (c *census) page() {
	q := infoQuery{Filter: c.s.src.cfg.filterSubject(), Offset: c.offset}
	c.s.askInfo(q, func(info *streamInfo, err error) {
		if err != nil {
			c.err = err
			return
		}
		for subject := range info.State.Subjects {
			if key, ok := c.s.src.cfg.keyOf(subject); ok {
				c.missing[key] = true
			}
		}
		c.offset += len(info.State.Subjects)
		if len(info.State.Subjects) > 0 && c.offset < info.Total {
			c.page()
			return
		}
		for key := range c.old.live {
			c.missing[key] = true
		}
		c.listed = true
	})
}

// complete asks for what is missing, and tells whether nothing is.
func (c *census) complete() bool {
	if !c.listed {
		return false
	}
	for key := range c.missing {
		if c.asked >= censusParallel {
			break
		}
		delete(c.missing, key)
		if c.next.revisionOf(key) == 0 {
			c.read(key)
		}
	}
	return len(c.missing) == 0 && c.asked == 0
}

func (c *census) read(key string) {
	c.asked++
	c.s.askMessage(messageQuery{LastFor: c.s.src.cfg.prefix() + key}, func(m *storedMessage, err error) {
		c.asked--
		if err != nil || m == nil {
			c.err = err
			return
		}
		header, err := m.header()
		if err != nil {
			c.err = err
			return
		}
		it := item{key: key, seq: m.Seq, created: m.Time.UnixNano(), header: header, value: m.Data, reason: markerOf(header)}
		if it.reason == "" {
			it.object, it.err = c.s.src.decodeOne(&it)
		}
		c.next.put(&it, c.old)
	})
}
