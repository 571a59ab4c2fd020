package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Errors of Owner.Lock.
var (
	// ErrChanged: a transaction that changed the table has ended since the caller's began to read. The engine would take both,
	// and double the table's rows.
	ErrChanged = errors.New("the table was changed by another transaction")
	// ErrDeadlock: the caller would wait for somebody who waits for it.
	ErrDeadlock = errors.New("deadlock")
)

// maxTables bounds what is remembered of tables that nobody holds.
const maxTables = 4096

// Tables are the locks of one lake. The zero value is ready.
type Tables struct {
	mu     sync.Mutex
	clock  uint64 // rises with every end of a transaction that changed tables
	floor  uint64 // tables without an entry were last changed at this time, or before
	tables map[string]*table
}

type table struct {
	holder  *Owner
	queue   []*wait
	changed uint64 // the clock when a change of the table last ended
}

type wait struct {
	owner *Owner
	ready chan struct{} // closed when the lock is the owner's
}

// Owner is a session, which has one transaction at a time. It is used by one goroutine.
type Owner struct {
	locks *Tables
	waits *table // guarded by locks.mu
	holds []*table
}

// Owner makes an owner of locks.
func (l *Tables) Owner() *Owner { return &Owner{locks: l} }

// Now is the time of the locks. A transaction notes it before it first reads the lake, for Lock.
func (o *Owner) Now() uint64 {
	o.locks.mu.Lock()
	defer o.locks.mu.Unlock()
	return o.locks.clock
}

// Always is the time to give to Lock for a transaction that has not read the lake yet: whatever happened before is seen.
const Always = ^uint64(0)

// Lock waits until the owner is the only one that may change or delete rows of the table, until Unlock. since is the time
// Now of the transaction's first look at the lake; ErrChanged says that the table has changed after that. The error of a
// context that ends is its cause.
func (o *Owner) Lock(ctx context.Context, name string, since uint64) error {
	l := o.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.entry(name)
	switch {
	case t.holder == o:
		return nil
	case t.holder == nil:
		t.holder = o
	case cycle(o, t):
		return ErrDeadlock
	default:
		if err := o.wait(ctx, t); err != nil {
			return err
		}
	}
	if t.changed > since {
		t.pass()
		return ErrChanged
	}
	o.holds = append(o.holds, t)
	return nil
}

// wait waits until the lock is the owner's. The mutex is held before and after.
func (o *Owner) wait(ctx context.Context, t *table) error {
	l := o.locks
	w := &wait{o, make(chan struct{})}
	t.queue = append(t.queue, w)
	o.waits = t
	l.mu.Unlock()
	over := false
	select {
	case <-w.ready:
	case <-ctx.Done():
		over = true
	}
	l.mu.Lock()
	o.waits = nil
	if !over {
		return nil
	}
	if i := slices.Index(t.queue, w); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	} else { // it was handed over in this very moment
		t.pass()
	}
	return context.Cause(ctx)
}

// Unlock ends all of the owner's locks, after its transaction. changed says that the transaction may have committed.
func (o *Owner) Unlock(changed bool) {
	if len(o.holds) == 0 {
		return
	}
	l := o.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	if changed {
		l.clock++
	}
	for _, t := range o.holds {
		if changed {
			t.changed = l.clock
		}
		t.pass()
	}
	o.holds = nil
}

// Held reports how many tables are locked and how many owners wait, for Status.
func (l *Tables) Held() (held, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tables {
		if t.holder != nil {
			held++
		}
		waiting += len(t.queue)
	}
	return held, waiting
}

func (l *Tables) entry(name string) *table {
	t := l.tables[name]
	if t == nil {
		if l.tables == nil || len(l.tables) >= maxTables {
			l.forget()
		}
		t = &table{changed: l.floor}
		l.tables[name] = t
	}
	return t
}

// forget drops what is known of tables that nobody holds; the floor stands in for it.
func (l *Tables) forget() {
	kept := map[string]*table{}
	for name, t := range l.tables {
		if t.holder != nil {
			kept[name] = t
		}
	}
	l.tables, l.floor = kept, l.clock
}

// cycle reports whether the holder of t waits, over any number of others, for o.
func cycle(o *Owner, t *table) bool {
	for t != nil && t.holder != nil {
		if t.holder == o {
			return true
		}
		t = t.holder.waits
	}
	return false
}

// pass gives the lock to who has waited longest.
func (t *table) pass() {
	t.holder = nil
	if len(t.queue) > 0 {
		w := t.queue[0]
		t.queue = t.queue[1:]
		t.holder, w.owner.waits = w.owner, nil // at once: who holds a lock and seems to wait for it would be a circle
		close(w.ready)
	}
}
