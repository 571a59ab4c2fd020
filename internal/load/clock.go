package load

import (
	"context"
	"math/rand/v2"
	"time"
)

// clock is the loader's own time and chance; a simulation puts its own in their place.
type clock interface {
	Now() time.Time
	// Pause waits, or gives the cause of ctx's end.
	Pause(ctx context.Context, d time.Duration) error
	// After runs fn after a while, unless stop is called before.
	After(d time.Duration, fn func()) (stop func() bool)
	// Spread gives a duration near d, so that many waits do not end at once.
	Spread(d time.Duration) time.Duration
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (realClock) After(d time.Duration, fn func()) func() bool { return time.AfterFunc(d, fn).Stop }

// Spread spreads by ±20 %.
func (realClock) Spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
