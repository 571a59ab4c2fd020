package queuetest

import (
	"testing"
)

// Run runs the whole suite. open makes a private, migrated, empty database for a test and gives a function that opens
// handles of it.
func Run(t *testing.T, open func(t *testing.T) Open) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases map[string]func(t *testing.T, open Open)
	}{
		{"enqueue", enqueueCases},
		{"states", stateCases},
		{"eligibility", eligibilityCases},
		{"leases", leaseCases},
		{"supersede", supersedeCases},
		{"operator", operatorCases},
		{"faults", faultCases},
		{"together", togetherCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, fn := range group.cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					fn(t, open(t))
				})
			}
		})
	}
}

// solo adapts a case that needs one process; the heads are checked at its end.
func solo(fn func(e *Env)) func(t *testing.T, open Open) {
	return func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		fn(e)
		if !t.Failed() {
			e.HeadsRight()
		}
	}
}
