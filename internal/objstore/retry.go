package objstore

import (
	"context"
	"math/rand/v2"
	"time"
)

// Retry is how often and how patiently an operation is repeated. Its zero value is 6 tries, 200 ms doubled each time, at
// most 30 s, each wait between half and all of that.
type Retry struct {
	Tries     int
	Base, Cap time.Duration
}

func (r Retry) tries() int {
	if r.Tries > 0 {
		return r.Tries
	}
	return 6
}

// wait is how long to wait after the n-th failure, counted from 0, with jitter in [0, 1).
func (r Retry) wait(n int, jitter float64) time.Duration {
	base, most := r.Base, r.Cap
	if base <= 0 {
		base = 200 * time.Millisecond
	}
	if most <= 0 {
		most = 30 * time.Second
	}
	full := most
	if n < 30 && base<<n < most && base<<n > 0 {
		full = base << n
	}
	return full/2 + time.Duration(jitter*float64(full/2))
}

// do calls f until it succeeds, fails for good, or the tries are used up.
func (r Retry) do(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		if err == nil || !Retryable(err) || n+1 >= r.tries() {
			return err
		}
		if !sleep(ctx, r.wait(n, rand.Float64())) {
			return err
		}
	}
}

// sleep waits, or returns false once the context is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
