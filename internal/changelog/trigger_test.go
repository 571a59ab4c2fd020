package changelog

import (
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	t.Parallel()
	th := Thresholds{Bytes: 100, Rows: 10, Interval: time.Minute}
	for _, c := range []struct {
		raw, rows int64
		age       time.Duration
		want      Trigger
	}{
		{0, 0, time.Hour, TriggerNone}, // an empty buffer never commits
		{99, 9, 59 * time.Second, TriggerNone},
		{100, 1, 0, TriggerBytes},
		{1, 10, 0, TriggerRows},
		{1, 1, time.Minute, TriggerInterval},
	} {
		if got := th.Due(c.raw, c.rows, c.age, th.Interval); got != c.want {
			t.Errorf("%d bytes, %d rows, %s: %q, want %q", c.raw, c.rows, c.age, got, c.want)
		}
	}
}

// TestStretch: small files make the interval longer, up to its limit; a backlog or larger files make it short again.
func TestStretch(t *testing.T) {
	t.Parallel()
	th := Thresholds{Interval: 60 * time.Second, MaxInterval: 100 * time.Second}
	var s Stretch
	for range 9 {
		s.Flushed(th, 1000, 0)
	}
	if got := s.Interval(th); got != time.Minute {
		t.Errorf("after 9 files: %s", got)
	}
	s.Flushed(th, 1000, 0)
	if got := s.Interval(th); got != 90*time.Second {
		t.Errorf("after 10 small files: %s", got)
	}
	s.Flushed(th, 1000, 0)
	if got := s.Interval(th); got != 100*time.Second {
		t.Errorf("at the limit: %s", got)
	}
	s.Flushed(th, 1000, 10*time.Minute)
	if got := s.Interval(th); got != time.Minute {
		t.Errorf("behind: %s", got)
	}
	for range 10 {
		s.Flushed(th, 8<<20, 0)
	}
	if got := s.Interval(th); got != time.Minute {
		t.Errorf("large files: %s", got)
	}
	fixed := Thresholds{Interval: time.Minute, MaxInterval: time.Minute}
	var f Stretch
	for range 20 {
		f.Flushed(fixed, 1, 0)
	}
	if got := f.Interval(fixed); got != time.Minute {
		t.Errorf("without room: %s", got)
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	var f flood
	if f.with(999, 999) {
		t.Error("fewer than a thousand messages are no flood")
	}
	if !f.with(1000, 501) || f.with(1000, 500) {
		t.Error("more than half of a thousand is a flood")
	}
	for range 10 {
		f.passed(1000, 0)
	}
	if f.with(1000, 1000) {
		t.Error("a tenth of the last ten thousand is no flood")
	}
	if !f.with(12_000, 6_001) {
		t.Error("one flush may be the whole window")
	}
	if n := len(f.flushes); n > 11 {
		t.Errorf("%d flushes are remembered", n)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int{{4, 1, 4}, {4, 3, 2}, {4, 4, 1}, {1, 3, 1}, {0, 2, 0}, {5, 0, 5}} {
		if got := Share(c[0], c[1]); got != c[2] {
			t.Errorf("%d slots, %d processes: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestMemory: the largest slots wait first, the largest one flushes, and who waits goes on when half is free.
func TestMemory(t *testing.T) {
	t.Parallel()
	m := NewMemory(100)
	a, b := &slot{}, &slot{}
	if m.Set(a, 50, false) != Free || m.Set(b, 20, false) != Free {
		t.Error("70 % is free")
	}
	if m.Set(a, 65, false) != Wait || m.Set(b, 20, false) != Free {
		t.Error("at 85 % the large one waits, the small one does not")
	}
	if m.Set(a, 75, true) != FlushNow || m.Set(b, 21, false) != Wait {
		t.Error("over 95 % the largest flushes, the others wait")
	}
	if m.Set(a, 40, true) != Wait {
		t.Error("who waits goes on only below 50 %")
	}
	if m.Set(a, 20, true) != Free || m.Held() != 41 {
		t.Error("below 50 % it goes on")
	}
	m.Drop(a)
	if m.Held() != 21 {
		t.Error("a slot that has ended holds nothing")
	}
}
