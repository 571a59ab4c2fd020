package action

import "hash/maphash"

// Replay makes one state of the actions of many commits: the newest action of a file wins. Commits come from the newest to
// the oldest, and after them the checkpoint, whose files are unique. It remembers a few bytes for each file that commits
// name, and for each file of the checkpoint that has a deletion vector; not for the rest of the table.
//
// A file is known by its key: its location and the id of its deletion vector. At most one key of a location is live.
type Replay struct {
	// Lenient lets a commit name a file in two adds, or have two protocols or two metadata, as careless writers do. One
	// key twice is an error always.
	Lenient bool

	seeds  [2]maphash.Seed
	files  map[[2]uint64]memory
	commit int32 // counts commits from 1; the checkpoint is the last
	state  struct{ protocol, metadata bool }
}

// memory is what is known of a key; that of a location without a deletion vector holds what is known of the location too.
type memory struct {
	seen  int32 // the commit in which the key was named last
	added int32 // of a location: the commit in which it was added last, under any key
	live  bool  // of a location: one of its keys is live
}

// NewReplay begins.
func NewReplay() *Replay {
	return &Replay{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		files: map[[2]uint64]memory{},
	}
}

// hash stands for a key. Two keyed hashes of 64 bits: nobody can write a log in which keys collide.
func (r *Replay) hash(location, dv string) [2]uint64 {
	var h [2]uint64
	for i, seed := range r.seeds {
		if dv == "" {
			h[i] = maphash.String(seed, location)
			continue
		}
		h[i] = maphash.Comparable(seed, [2]string{location, dv})
	}
	return h
}

// Commit begins the next older commit, or the checkpoint.
func (r *Replay) Commit() {
	r.commit++
	r.state.protocol, r.state.metadata = false, false
}

// Added takes an add and reports whether the file is live.
func (r *Replay) Added(location, dv string) (bool, error) {
	place := r.hash(location, "")
	at := r.files[place]
	isNew, err := false, error(nil)
	if dv == "" {
		isNew, err = at.name(r.commit, location)
	} else {
		isNew, err = r.name(r.hash(location, dv), location)
	}
	if err != nil {
		return false, err
	}
	if at.added == r.commit && !r.Lenient {
		return false, Corrupt(nil, "file %s is added twice in one commit", location)
	}
	at.added = r.commit
	if isNew && at.live {
		return false, twoLive(location)
	}
	at.live = at.live || isNew
	r.files[place] = at
	return isNew, nil
}

func twoLive(location string) error {
	return Corrupt(nil, "file %s is live with two deletion vectors: its rows would be doubled", location)
}

// Removed takes a remove.
func (r *Replay) Removed(location, dv string) error {
	_, err := r.name(r.hash(location, dv), location)
	return err
}

// name notes a key and reports whether it had not been named by a newer commit.
func (r *Replay) name(key [2]uint64, location string) (bool, error) {
	m := r.files[key]
	isNew, err := m.name(r.commit, location)
	if err == nil {
		r.files[key] = m
	}
	return isNew, err
}

func (m *memory) name(commit int32, location string) (bool, error) {
	if m.seen == commit {
		return false, Corrupt(nil, "file %s is named twice in one commit", location)
	}
	isNew := m.seen == 0
	m.seen = commit
	return isNew, nil
}

// Checkpointed takes a file of the checkpoint and reports whether it is live.
func (r *Replay) Checkpointed(location, dv string) (bool, error) {
	place := r.hash(location, "")
	h := place
	if dv != "" {
		h = r.hash(location, dv)
	}
	if r.files[h].seen != 0 {
		return false, nil
	}
	at := r.files[place]
	if at.live {
		return false, twoLive(location)
	}
	if dv != "" {
		at.live = true
		r.files[place] = at
	}
	return true, nil
}

// Protocol takes a protocol of the commit.
func (r *Replay) Protocol() error { return r.once(&r.state.protocol, "protocol") }

// Metadata takes a metaData of the commit.
func (r *Replay) Metadata() error { return r.once(&r.state.metadata, "metaData") }

func (r *Replay) once(seen *bool, what string) error {
	if *seen && !r.Lenient {
		return Corrupt(nil, "one commit has two %s actions", what)
	}
	*seen = true
	return nil
}
