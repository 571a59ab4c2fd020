package fanout

import (
	"context"

	"sluice/internal/control"
)

// poll asks discovery who the destinations are. While it is down, or its answer is not to be believed, the stored ones go on.
func (w *follower) poll(ctx context.Context) error {
	var answer *control.Discovery
	result := "good"
	if d, err := w.r.deps.Discovery.Discovery(ctx); err == nil {
		answer = &d
	} else {
		result = "down"
		w.r.deps.Log.WarnContext(ctx, "discovery does not answer; the destinations known so far go on", "fanout", w.f.Name, "error", err)
	}
	have, err := w.r.deps.Store.Destinations(ctx, w.f)
	if err != nil {
		return err
	}
	generation, err := w.r.deps.Store.Generation(ctx, w.f)
	if err != nil {
		return err
	}
	p := Route(w.f, have, answer, generation)
	if answer != nil && p.Poisoned != "" {
		result = "poisoned"
		w.r.deps.Log.WarnContext(ctx, "an answer of discovery removes nothing", "fanout", w.f.Name, "reason", p.Poisoned)
	}
	w.r.deps.Meter.Polled(w.f, result)
	err = w.r.deps.Store.Polled(ctx, w.f, p)
	if err == errMoved { //nolint:errorlint // it is ours and never wrapped
		return nil // somebody else polled at the same time
	}
	return err
}
