package changelog

import "time"

// Trigger is why a buffer was flushed.
type Trigger string

// The triggers.
const (
	TriggerNone     Trigger = ""
	TriggerBytes    Trigger = "bytes"
	TriggerRows     Trigger = "rows"
	TriggerInterval Trigger = "interval"
	TriggerMemory   Trigger = "memory"
	TriggerGiveUp   Trigger = "give_up"
)

// Thresholds say when a buffer is flushed.
type Thresholds struct {
	Bytes       int64
	Rows        int64
	Interval    time.Duration
	MaxInterval time.Duration // the interval stretches up to this while files are small; 0: it does not
}

// Due says whether a buffer of this size and age is to be flushed.
func (t Thresholds) Due(raw, rows int64, age, interval time.Duration) Trigger {
	switch {
	case rows == 0:
		return TriggerNone // an empty buffer never commits
	case raw >= t.Bytes:
		return TriggerBytes
	case rows >= t.Rows:
		return TriggerRows
	case age >= interval:
		return TriggerInterval
	}
	return TriggerNone
}

// Small files make readers slow and compaction busy.
const (
	smallFile     = 4 << 20
	smallFiles    = 10
	stretchFactor = 3
	stretchBy     = 2
)

// Stretch is the interval of a slot: while its lag is under one interval and its last files are small it grows, up to a
// limit; else it is what the configuration says.
type Stretch struct {
	interval time.Duration
	files    []int64 // sizes of the last files
}

// Interval is the present interval.
func (s *Stretch) Interval(t Thresholds) time.Duration {
	if s.interval == 0 {
		return t.Interval
	}
	return s.interval
}

// Flushed is told each flush, with the size of its file and how far the slot is behind.
func (s *Stretch) Flushed(t Thresholds, bytes int64, lag time.Duration) {
	if s.files = append(s.files, bytes); len(s.files) > smallFiles {
		s.files = s.files[1:]
	}
	var sum int64
	for _, f := range s.files {
		sum += f
	}
	if t.MaxInterval <= t.Interval || lag >= s.Interval(t) || len(s.files) < smallFiles || sum >= smallFile*int64(len(s.files)) {
		s.interval = 0
		return
	}
	s.interval = min(s.Interval(t)*stretchFactor/stretchBy, t.MaxInterval)
}

// flood watches how many of a slot's last messages were poison.
type flood struct {
	flushes [][2]int64 // messages and poison of the last flushes
}

// Bounds of the flood guard (spec/changelog.md §5.5).
const (
	floodWindow = 10_000
	floodLeast  = 1_000
)

// with reports whether, with a flush of these numbers, more than half of the last messages are poison.
func (f *flood) with(messages, poison int64) bool {
	n, p := messages, poison
	for i := len(f.flushes) - 1; i >= 0 && n < floodWindow; i-- {
		n += f.flushes[i][0]
		p += f.flushes[i][1]
	}
	return n >= floodLeast && p*2 > n
}

// passed is told a flush that went in.
func (f *flood) passed(messages, poison int64) {
	f.flushes = append(f.flushes, [2]int64{messages, poison})
	var n int64
	for i := len(f.flushes) - 1; i >= 0; i-- {
		if n >= floodWindow {
			f.flushes = f.flushes[i+1:]
			return
		}
		n += f.flushes[i][0]
	}
}
