package kubecache

// space is a namespace of a watch, or all cluster-scoped objects. With its own journal a
// cursor reveals nothing about other namespaces.
type space struct {
	journal
	live map[string]*entry // by name
	// graves are the deletions in the journal.
	graves []*entry
	// size is the memory of live entries and graves when kept, held their current memory.
	size, held int
	// counted: only names and sizes are kept, for lack of memory; lost: not even these.
	counted, lost bool
}

func (s *objects) space(namespace string) *space {
	sp := s.spaces[namespace]
	if sp == nil {
		sp = &space{journal: newJournal(), live: map[string]*entry{}}
		s.spaces[namespace] = sp
	}
	return sp
}

func (s *objects) hold(sp *space, bytes int) {
	sp.held += bytes
	s.bytes += bytes
}

// keep adds an entry to its space.
func (s *objects) keep(sp *space, e *entry) {
	sp.size += e.size
	if sp.counted {
		e.encoded = nil
	} else {
		sp.append(e)
		s.all.append(e)
	}
	s.hold(sp, e.held())
}

func (s *objects) retire(sp *space, e *entry) {
	s.hold(sp, -e.held())
	sp.size -= e.size
	e.encoded = nil
	if e.stale = true; !sp.counted {
		sp.retired()
		s.all.retired()
	}
}

// settle reduces the memory below the bound. The largest space goes first, so that no
// namespace crowds out a smaller one: its objects at first, then also their names and sizes.
func (s *objects) settle() {
	for s.bytes > maxBytes {
		var largest *space
		for _, sp := range s.spaces {
			if largest == nil || sp.held > largest.held {
				largest = sp
			}
		}
		if largest.counted {
			s.lose(largest)
		} else {
			s.count(largest)
		}
	}
	for _, sp := range s.refused() {
		if !sp.lost && s.bytes-sp.held+sp.size <= fitBytes {
			s.reread(rereadPause)
		}
	}
}

// count reduces a space to the sizes that tell when it fits again.
func (s *objects) count(sp *space) {
	for _, e := range sp.graves {
		s.retire(sp, e)
	}
	s.graves -= len(sp.graves)
	for _, e := range sp.live {
		s.hold(sp, -len(e.encoded))
		e.encoded, e.stale = nil, true
		s.all.retired()
	}
	sp.journal, sp.graves, sp.counted = newJournal(), nil, true
	s.all.forget()
	s.counted++
}

// lose drops a space until the next full read.
func (s *objects) lose(sp *space) {
	s.hold(sp, -sp.held)
	sp.live, sp.lost = nil, true
	s.reread(lostPause)
}

// refused are the incomplete spaces.
func (s *objects) refused() map[string]*space {
	some := map[string]*space{}
	if s.counted == 0 {
		return some
	}
	for namespace, sp := range s.spaces {
		if sp.counted {
			some[namespace] = sp
		}
	}
	return some
}

// dig adds a deletion. Beyond the bound it drops the oldest one of the space with the most.
func (s *objects) dig(sp *space, grave *entry) {
	s.keep(sp, grave)
	grave.own, grave.among = sp.head, s.all.head
	sp.graves = append(sp.graves, grave)
	if s.graves++; s.graves <= maxGone {
		return
	}
	for _, other := range s.spaces {
		if len(other.graves) > len(sp.graves) {
			sp = other
		}
	}
	first := sp.graves[0]
	sp.cut, s.all.cut = max(sp.cut, first.own), max(s.all.cut, first.among)
	s.retire(sp, first)
	sp.graves = sp.graves[1:]
	if s.graves--; len(sp.graves)+len(sp.live) == 0 {
		delete(s.spaces, first.namespace)
	}
}
