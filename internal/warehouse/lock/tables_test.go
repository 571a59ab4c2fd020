package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/warehouse/lock"
)

func TestOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lock.Tables
		order := make(chan int, 3)
		first := l.Owner()
		if err := first.Lock(t.Context(), "t", lock.Always); err != nil {
			t.Fatal(err)
		}
		if err := first.Lock(t.Context(), "t", lock.Always); err != nil {
			t.Fatal("twice: ", err)
		}
		for i := range 3 {
			go func() {
				o := l.Owner()
				if err := o.Lock(t.Context(), "t", lock.Always); err != nil {
					t.Error(err)
				}
				order <- i
				o.Unlock(false)
			}()
			synctest.Wait()
		}
		if held, waiting := l.Held(); held != 1 || waiting != 3 {
			t.Fatal(held, waiting)
		}
		first.Unlock(true)
		for i := range 3 {
			if got := <-order; got != i {
				t.Errorf("%d was let in as number %d", got, i)
			}
		}
		synctest.Wait()
		if held, waiting := l.Held(); held != 0 || waiting != 0 {
			t.Fatal(held, waiting)
		}
	})
}

func TestOldSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	var l lock.Tables
	a, b := l.Owner(), l.Owner()
	before := b.Now()
	must(t, a.Lock(t.Context(), "t", lock.Always))
	must(t, a.Lock(t.Context(), "u", lock.Always))
	a.Unlock(true)
	if err := b.Lock(t.Context(), "t", before); !errors.Is(err, lock.ErrChanged) {
		t.Fatal(err)
	}
	must(t, b.Lock(t.Context(), "other", before))
	must(t, b.Lock(t.Context(), "t", b.Now()))
	b.Unlock(false)
	if err := a.Lock(t.Context(), "u", before); !errors.Is(err, lock.ErrChanged) {
		t.Fatal(err)
	}
	now := a.Now()
	must(t, b.Lock(t.Context(), "t", lock.Always))
	b.Unlock(false) // rolled back
	must(t, a.Lock(t.Context(), "t", now))
}

// What is forgotten of a table counts as changed, not as unchanged.
func TestForgottenTablesAreTakenForChanged(t *testing.T) {
	t.Parallel()
	var l lock.Tables
	a := l.Owner()
	before := a.Now()
	for i := range 5000 {
		must(t, a.Lock(t.Context(), string(rune(1000+i)), lock.Always))
		a.Unlock(true)
	}
	if err := a.Lock(t.Context(), string(rune(1000)), before); !errors.Is(err, lock.ErrChanged) {
		t.Fatal(err)
	}
}

func TestDeadlockIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lock.Tables
		a, b, c := l.Owner(), l.Owner(), l.Owner()
		must(t, a.Lock(t.Context(), "a", lock.Always))
		must(t, b.Lock(t.Context(), "b", lock.Always))
		must(t, c.Lock(t.Context(), "c", lock.Always))
		done := make(chan error, 2)
		go func() { done <- a.Lock(t.Context(), "b", lock.Always) }()
		synctest.Wait()
		go func() { done <- b.Lock(t.Context(), "c", lock.Always) }()
		synctest.Wait()
		if err := c.Lock(t.Context(), "a", lock.Always); !errors.Is(err, lock.ErrDeadlock) {
			t.Fatal(err)
		}
		c.Unlock(false)
		must(t, <-done)
		b.Unlock(true)
		must(t, <-done)
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lock.Tables
		a, b, c := l.Owner(), l.Owner(), l.Owner()
		must(t, a.Lock(t.Context(), "t", lock.Always))
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := b.Lock(ctx, "t", lock.Always); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		a.Unlock(true)
		must(t, c.Lock(t.Context(), "t", lock.Always)) // the lock is not lost with who gave up
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
