package fanout

import (
	"time"

	"sluice/internal/sluice"
)

// State is where a destination stands.
type State string

// The states.
const (
	StateNew       State = "new"
	StateSeeding   State = "seeding"
	StateFollowing State = "following"
	StateRetrying  State = "retrying"
	StateWaiting   State = "waiting" // its warehouse takes no writes for now
	StateHalted    State = "halted"
	StatePaused    State = "paused"
	StateRemoved   State = "removed"
)

// States lists them all.
var States = []State{StateNew, StateSeeding, StateFollowing, StateRetrying, StateWaiting, StateHalted, StatePaused, StateRemoved}

// Event is what happens to a destination.
type Event string

// The events.
const (
	EventSeed       Event = "seed"       // its history is being collected
	EventFollow     Event = "follow"     // its table holds everything up to the cursor
	EventFail       Event = "fail"       // something that passes by itself
	EventApplied    Event = "applied"    // a transaction committed
	EventUnwritable Event = "unwritable" // its warehouse takes no writes
	EventWritable   Event = "writable"
	EventHalt       Event = "halt"
	EventResume     Event = "resume" // an operator ends a halt or a pause
	EventReseed     Event = "reseed" // an operator wants it built anew
	EventPause      Event = "pause"
	EventRemove     Event = "remove" // three good polls without it
	EventReturn     Event = "return" // it is listed again
)

// Next gives the state after an event, and the one to come back to. ok is false where the event means nothing in the state.
func Next(s, before State, e Event) (to, back State, ok bool) {
	switch e {
	case EventSeed:
		return StateSeeding, "", s == StateNew || s == StateSeeding || s == StateRetrying && before == StateSeeding
	case EventFollow:
		return StateFollowing, "", s == StateNew || s == StateSeeding || s == StateFollowing || s == StateRetrying
	case EventFail:
		switch s {
		case StateNew, StateSeeding, StateFollowing:
			return StateRetrying, s, true
		case StateRetrying:
			return StateRetrying, before, true
		case StateWaiting, StateHalted, StatePaused, StateRemoved:
		}
	case EventApplied:
		switch s {
		case StateFollowing:
			return StateFollowing, "", true
		case StateRetrying:
			return StateFollowing, "", true
		case StateNew, StateSeeding, StateWaiting, StateHalted, StatePaused, StateRemoved:
		}
	case EventUnwritable, EventPause:
		to := StateWaiting
		if e == EventPause {
			to = StatePaused
		}
		switch s {
		case StateNew, StateSeeding, StateFollowing:
			return to, s, true
		case StateRetrying:
			return to, before, true
		case StateHalted:
			return to, s, e == EventPause
		case StateWaiting:
			return to, before, e == EventPause
		case StatePaused, StateRemoved:
		}
	case EventWritable:
		return before, "", s == StateWaiting
	case EventHalt:
		return StateHalted, goesOn(s, before), s != StateRemoved && s != StateHalted
	case EventResume:
		return before, "", (s == StateHalted || s == StatePaused) && before != ""
	case EventReseed:
		return StateNew, "", s != StateRemoved
	case EventRemove:
		return StateRemoved, goesOn(s, before), s != StateRemoved
	case EventReturn:
		return StateNew, "", s == StateRemoved
	}
	return s, before, false
}

// goesOn is the state from which a destination goes on after whatever stops it.
func goesOn(s, before State) State {
	switch s {
	case StateRetrying, StateWaiting, StatePaused, StateHalted:
		if before != "" {
			return before
		}
	case StateNew, StateSeeding, StateFollowing, StateRemoved:
	}
	return s
}

// Retries.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// Backoff is how long a destination rests after so many failures in a row. jitter is between 0 and 1.
func Backoff(tries int, jitter float64) time.Duration {
	d := retryMost
	if tries < 10 {
		d = min(retryFirst<<max(tries-1, 0), retryMost)
	}
	return time.Duration(float64(d) * (0.5 + jitter/2))
}

// haltsDestination tells a halt from what passes by itself.
func haltsDestination(code sluice.Code) bool {
	switch code {
	case "SLUICE-FANOUT-GAP", "SLUICE-FANOUT-TARGET-CHANGED", "SLUICE-FANOUT-TARGET-SHAPE", "SLUICE-FANOUT-PROJECTION", "SLUICE-FANOUT-KEY-NOT-UNIQUE",
		"SLUICE-FANOUT-TARGET-MISSING", "SLUICE-FANOUT-TARGET-ID", "SLUICE-FANOUT-AMBIGUOUS", "SLUICE-FANOUT-DAMAGED", "SLUICE-FANOUT-QUARANTINE-FLOOD",
		"SLUICE-FANOUT-CONTROL", "SLUICE-LAKE-DAMAGED":
		return true
	}
	return false
}
