package fanout

import (
	"testing"
	"time"
)

// Whatever happens, a destination is in a state that the state DB takes, and none comes back from removal but by being listed.
func TestStatesAreClosed(t *testing.T) {
	t.Parallel()
	events := []Event{
		EventSeed, EventFollow, EventFail, EventApplied, EventUnwritable, EventWritable, EventHalt, EventResume, EventReseed, EventPause, EventRemove, EventReturn,
	}
	befores := []State{"", StateNew, StateSeeding, StateFollowing, StateHalted}
	for _, s := range States {
		for _, b := range befores {
			if (s == StateRetrying || s == StateWaiting) && (b == "" || b == StateHalted) || s == StatePaused && b == "" {
				continue
			}
			for _, e := range events {
				to, back, ok := Next(s, b, e)
				if !ok {
					continue
				}
				if to == "" {
					t.Errorf("%s (before %q) on %s leads nowhere", s, b, e)
				}
				if (to == StateRetrying || to == StateWaiting) && back == "" {
					t.Errorf("%s (before %q) on %s: %s does not know where to go on", s, b, e, to)
				}
				switch back {
				case "", StateNew, StateSeeding, StateFollowing, StateHalted:
				default:
					t.Errorf("%s (before %q) on %s would come back to %s", s, b, e, back)
				}
				if s == StateRemoved && e != EventReturn {
					t.Errorf("%s on %s leads to %s", s, e, to)
				}
			}
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tries       int
		least, most time.Duration
	}{{1, 500 * time.Millisecond, time.Second}, {2, time.Second, 2 * time.Second}, {9, 128 * time.Second, 256 * time.Second}, {50, 150 * time.Second, 5 * time.Minute}} {
		if d := Backoff(c.tries, 0); d != c.least {
			t.Errorf("after %d failures at least %s, want %s", c.tries, d, c.least)
		}
		if d := Backoff(c.tries, 1); d != c.most {
			t.Errorf("after %d failures at most %s, want %s", c.tries, d, c.most)
		}
	}
}
