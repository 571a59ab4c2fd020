package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// SlotConfig is how a slot works; the zero value of each field is its default.
type SlotConfig struct {
	Thresholds Thresholds
	Fetching   Fetching
	Check      time.Duration // how often the topic is compared with the lake; default 60 s
	GiveUp     time.Duration // how long the rest of the buffer may take at the end; default 20 s
}

func (c SlotConfig) withDefaults() SlotConfig {
	t := &c.Thresholds
	if t.Bytes == 0 {
		t.Bytes = 100 << 20
	}
	if t.Rows == 0 {
		t.Rows = 1_000_000
	}
	if t.Interval == 0 {
		t.Interval = time.Minute
	}
	if t.MaxInterval == 0 {
		t.MaxInterval = 5 * time.Minute
	}
	if c.Check == 0 {
		c.Check = time.Minute
	}
	if c.GiveUp == 0 {
		c.GiveUp = 20 * time.Second
	}
	c.Fetching = c.Fetching.withDefaults()
	return c
}

// slot is the work on one slot by its owner: it fetches, and flushes beside it.
type slot struct {
	c       *Changelog
	number  int
	cfg     SlotConfig
	cluster Cluster
	memory  *Memory
	sink    *sink
	meter   Meter
	log     *slog.Logger

	adm    *kadm.Client
	client *kgo.Client
	state  SlotState // as of the last flush
	buffer *Buffer
	flight chan flightEnd // of the flush under way; nil: none
	stood  int64          // bytes that it holds
	paused bool
	lag    Stretch

	mu     sync.Mutex
	status SlotStatus
}

type flightEnd struct {
	f   *flushing
	err error
}

// SlotStatus is what a slot that this process owns shows of itself.
type SlotStatus struct {
	Changelog string
	Slot      int
	Buffered  int64 // messages
	Held      int64 // bytes
	Paused    bool
	LastFlush time.Time
	Rows      int64 // since it was taken
	Rate      float64
	Lag       map[int32]PartitionLag
	Error     string
}

// PartitionLag is how far a partition is behind, as the slot sees it.
type PartitionLag struct {
	Records int64
	Seconds float64
}

// Meter counts what slots do.
type Meter interface {
	Flushed(c *Changelog, f Flushed)
	Fenced(c *Changelog, slot int)
}

// Status is the slot's present status.
func (w *slot) Status() SlotStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// errMoved means that the slot has to begin anew: partitions were added, or a gap was skipped.
var errMoved = errors.New("the slot's partitions have changed")

// run owns the slot until ctx is over or an error. hurry is over when there is no time for a last flush, because the lease is
// lost. A *sluice.Error with a code that halts is for the whole changelog.
func (w *slot) run(ctx, hurry context.Context) error {
	w.cfg = w.cfg.withDefaults()
	defer w.memory.Drop(w)
	defer w.sink.close()
	st, err := w.sink.take(ctx)
	if err != nil {
		return err
	}
	if w.adm, err = w.cluster.admin(); err != nil {
		return err
	}
	defer w.adm.Close()
	for {
		w.state = st
		err := w.follow(ctx, hurry)
		if !errors.Is(err, errMoved) {
			return err
		}
		s, err := w.sink.session(ctx)
		if err != nil {
			return err
		}
		if st, err = ReadSlot(ctx, s, w.c.ID, w.number); err != nil {
			return err
		}
		if st.Owner != w.sink.owner {
			return fenced(w.c, w.number, w.sink.seq)
		}
		w.sink.seq = st.Seq
		w.sink.epoch, _ = st.Epoch()
	}
}

// check compares the topic with the lake, and takes in what is new. errMoved: read the offsets again.
func (w *slot) check(ctx context.Context) error {
	topic, err := describe(ctx, w.adm, w.c.Topic)
	if err != nil {
		return err
	}
	v := Judge(w.c, w.number, w.state, topic)
	if w.buffer != nil && (v.Halt != nil || len(v.New)+len(v.Gaps) > 0) {
		// What has been fetched comes first: the lake may not lack it any more.
		if err := w.settle(ctx); err != nil {
			return err
		}
		v = Judge(w.c, w.number, w.state, topic)
	}
	switch {
	case v.Halt != nil:
		return v.Halt
	case len(v.New) > 0:
		w.log.WarnContext(ctx, "topic has new partitions: keys may have moved between partitions", "partitions", v.New)
		if err := w.sink.addPartitions(ctx, w.state, v.New); err != nil {
			return err
		}
		return errMoved
	case len(v.Gaps) > 0:
		w.log.WarnContext(ctx, "messages are lost: the topic's retention has run past them", "code", "SLUICE-CHANGELOG-GAP", "gaps", v.Gaps)
		if err := w.sink.skipGaps(ctx, w.state, v.Gaps); err != nil {
			return err
		}
		return errMoved
	}
	w.observe(topic)
	return nil
}

// follow fetches and flushes from the offsets of w.state on.
func (w *slot) follow(ctx, hurry context.Context) (err error) {
	w.buffer, w.flight, w.stood = nil, nil, 0
	if err := w.check(ctx); err != nil {
		return err
	}
	if len(w.state.Cursors) == 0 { // fewer partitions than slots
		return w.idle(ctx)
	}
	if w.client, err = w.cluster.consumer(w.c, w.state.Cursors, w.cfg.Fetching); err != nil {
		return err
	}
	defer w.client.Close()
	w.buffer = NewBuffer(Limits{w.c.Def.MaxMessageBytes}, w.state.Next())
	flushCtx := context.WithoutCancel(ctx) // a flush that has begun may end, and its outcome be known
	defer func() { err = w.land(flushCtx, err) }()
	checkAt := time.Now().Add(w.cfg.Check)
	for ctx.Err() == nil {
		if w.flight != nil {
			select {
			case end := <-w.flight:
				if err := w.landed(ctx, end); err != nil {
					return err
				}
			default:
			}
		}
		full := w.buffer.Raw() >= w.cfg.Thresholds.Bytes || w.buffer.Rows() >= w.cfg.Thresholds.Rows
		pressure := w.memory.Set(w, w.stood+w.buffer.Held(), w.paused)
		w.show(pressure != Free)
		trigger := w.cfg.Thresholds.Due(w.buffer.Raw(), w.buffer.Rows(), w.age(), w.interval())
		if trigger == TriggerNone && pressure == FlushNow && w.buffer.Rows() > 0 {
			trigger = TriggerMemory
		}
		if trigger != TriggerNone && w.flight == nil {
			w.launch(flushCtx, trigger)
			continue
		}
		if w.flight != nil && (full || pressure != Free) {
			select { // nothing to be fetched until the flush is through
			case end := <-w.flight:
				if err := w.landed(ctx, end); err != nil {
					return err
				}
			case <-ctx.Done():
			}
			continue
		}
		if time.Now().After(checkAt) {
			if err := w.check(ctx); err != nil && !retryLater(err) {
				return err
			}
			checkAt = time.Now().Add(w.cfg.Check)
		}
		if pressure != Free { // others have to flush first
			t := time.NewTimer(memoryPause)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
			continue
		}
		if err := w.fetch(ctx); err != nil {
			return err
		}
	}
	return w.giveUp(ctx, hurry, flushCtx)
}

const (
	pollFor     = 100 * time.Millisecond
	pollRecords = 20_000 // between two looks at memory and thresholds
	memoryPause = 20 * time.Millisecond
)

// interval is how old a buffer may get.
func (w *slot) interval() time.Duration {
	if f, err := time.ParseDuration(w.c.Def.Freshness); err == nil {
		return f
	}
	return w.lag.Interval(w.cfg.Thresholds)
}

func (w *slot) age() time.Duration {
	if w.buffer.Rows() == 0 {
		return 0
	}
	return time.Since(w.buffer.Oldest())
}

// idle waits for partitions.
func (w *slot) idle(ctx context.Context) error {
	t := time.NewTicker(w.cfg.Check)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := w.check(ctx); err != nil && !retryLater(err) {
				return err
			}
		}
	}
}

// fetch takes what has come into the buffer.
func (w *slot) fetch(ctx context.Context) error {
	poll, cancel := context.WithTimeout(ctx, pollFor)
	defer cancel()
	fetches := w.client.PollRecords(poll, pollRecords)
	fetches.EachRecord(func(r *kgo.Record) { take(w.buffer, r) })
	var cause error
	fetches.EachError(func(_ string, _ int32, err error) {
		if cause == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			cause = err
		}
	})
	if cause == nil || ctx.Err() != nil {
		return nil
	}
	// What it means is what the topic says: out of range, truncated, recreated, or nothing but a broker that is away.
	var lost *kgo.ErrDataLoss
	if errors.As(cause, &lost) || errors.Is(cause, kerr.OffsetOutOfRange) || errors.Is(cause, kerr.UnknownTopicID) || errors.Is(cause, kerr.UnknownTopicOrPartition) ||
		errors.Is(cause, kerr.InconsistentTopicID) {
		if err := w.check(ctx); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		if lost != nil {
			return sluice.E("SLUICE-CHANGELOG-TRUNCATED", "follow topic "+w.c.Topic, fmt.Sprintf("partition %d was truncated: %v", lost.Partition, lost),
				"`sluice changelog resume --accept-truncation` goes on at the topic's end, in a new epoch", cause)
		}
		return errMoved
	}
	if err := topicError(w.c.Topic, cause); sluice.CodeOf(err) == "SLUICE-CHANGELOG-AUTH" {
		return err
	}
	w.note(topicError(w.c.Topic, cause)) // the client tries again by itself
	return nil
}

// take puts a record into a buffer.
func take(b *Buffer, r *kgo.Record) {
	if r.Attrs.IsControl() {
		b.Advance(r.Partition, r.Offset+1, r.LeaderEpoch)
		return
	}
	m := Message{Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, Header{h.Key, h.Value})
	}
	b.Add(&m, time.Now())
}

// settle brings what is buffered into the lake, so that the offsets there are what the topic has to be compared with.
func (w *slot) settle(ctx context.Context) error {
	if w.flight != nil {
		if err := w.landed(ctx, <-w.flight); err != nil {
			return err
		}
	}
	if w.buffer.Rows() == 0 {
		return nil
	}
	w.launch(context.WithoutCancel(ctx), TriggerGiveUp)
	return w.landed(ctx, <-w.flight)
}

// launch begins a flush; the next buffer fills meanwhile.
func (w *slot) launch(ctx context.Context, trigger Trigger) {
	f := &flushing{b: w.buffer, trigger: trigger}
	w.stood = w.buffer.Held()
	w.buffer = NewBuffer(w.buffer.limits, w.buffer.Next())
	done := make(chan flightEnd, 1)
	w.flight = done
	go func() { done <- flightEnd{f, w.fly(ctx, f)} }()
}

// Waits between flushes that come to nothing for reasons outside of them.
const (
	flushRetryMin = time.Second
	flushRetryMax = time.Minute
)

// fly flushes until it is done or cannot be done: as long as the slot's buffer stands, nothing is lost and nothing is doubled.
func (w *slot) fly(ctx context.Context, f *flushing) error {
	wait := flushRetryMin
	for {
		err := w.sink.flush(ctx, f)
		if err == nil || !retryLater(err) {
			return err
		}
		w.note(err)
		w.log.WarnContext(ctx, "flush not done, tried again", "error", err, "wait_s", wait.Seconds())
		t := time.NewTimer(wait)
		select {
		case <-w.sink.stop:
			t.Stop()
			return err
		case <-t.C:
		}
		wait = min(2*wait, flushRetryMax)
	}
}

// retryLater reports whether an error is of the circumstances.
func retryLater(err error) bool {
	var f *lake.Failure
	if errors.As(err, &f) {
		return f.Class == lake.Deferred || f.Class == lake.Conflict || f.Class == lake.Counted
	}
	switch sluice.CodeOf(err) {
	case "SLUICE-CHANGELOG-TOPIC", "SLUICE-CHANGELOG-AUTH", "SLUICE-LAKE-UNRESOLVED", "SLUICE-STATE-AWAY":
		return true
	}
	return false
}

// landed takes in the end of a flush.
func (w *slot) landed(ctx context.Context, end flightEnd) error {
	w.flight, w.stood = nil, 0
	if end.err != nil {
		if sluice.CodeOf(end.err) == "SLUICE-CHANGELOG-FENCED" {
			w.meter.Fenced(w.c, w.number)
		}
		return end.err
	}
	f := end.f
	w.state.Seq = f.out.Seq
	for i := range w.state.Cursors {
		c := &w.state.Cursors[i]
		if r := f.b.ranges[c.Partition]; r != nil && r.Next > c.Next {
			c.Next, c.LeaderEpoch = r.Next, r.LeaderEpoch
			if r.Timestamp >= 0 {
				c.Timestamp = r.Timestamp
			}
		}
	}
	w.lag.Flushed(w.cfg.Thresholds, f.out.FileBytes, w.age())
	w.meter.Flushed(w.c, f.out)
	w.mu.Lock()
	w.status.Rows += f.out.Rows
	w.status.LastFlush, w.status.Error = f.out.At, ""
	if all := f.out.Steps["all"]; all > 0 {
		w.status.Rate = float64(f.out.Rows) / all.Seconds()
	}
	w.mu.Unlock()
	w.log.InfoContext(ctx, "flushed", "trigger", f.trigger, "seq", f.out.Seq, "rows", f.out.Rows, "bytes", f.out.RawBytes, "duration_ms", f.out.Steps["all"].Milliseconds())
	for _, c := range f.out.Conflicts {
		w.log.WarnContext(ctx, "values went to _extra", "column", c.Column, "count", c.Count, "partition", c.Partition, "offset", c.Offset)
	}
	return nil
}

// giveUp ends the slot: the flush under way may end, and the rest is flushed within a while. Dropped buffers cost nothing.
func (w *slot) giveUp(ctx, hurry, flushCtx context.Context) error {
	if hurry.Err() != nil {
		return context.Cause(hurry)
	}
	grace := time.NewTimer(w.cfg.GiveUp)
	defer grace.Stop()
	stop := sync.OnceFunc(func() { close(w.sink.stop) })
	defer stop()
	for {
		if w.flight == nil {
			if w.buffer.Rows() == 0 {
				return nil
			}
			w.launch(flushCtx, TriggerGiveUp)
		}
		select {
		case end := <-w.flight:
			if err := w.landed(ctx, end); err != nil {
				return err
			}
		case <-grace.C:
			return nil
		case <-hurry.Done():
			return context.Cause(hurry)
		}
	}
}

// land waits for a flush under way, whatever ends the slot: its outcome is the lake's, and its session is used by nobody else.
func (w *slot) land(ctx context.Context, err error) error {
	if w.flight == nil {
		return err
	}
	select {
	case <-w.sink.stop:
	default:
		close(w.sink.stop)
	}
	end := <-w.flight
	if lerr := w.landed(ctx, end); err == nil {
		err = lerr
	}
	return err
}

// observe keeps how far the slot is behind.
func (w *slot) observe(t Topic) {
	lag := map[int32]PartitionLag{}
	for _, c := range w.state.Cursors {
		records := max(t.Partitions[c.Partition].Stable-c.Next, 0)
		if w.buffer != nil && records > 0 { // what is fetched up to its end has nothing but control records behind it
			if r := w.buffer.ranges[c.Partition]; r != nil && r.Next >= t.Partitions[c.Partition].Stable && r.Messages == 0 && w.flight == nil {
				records = 0
			}
		}
		l := PartitionLag{Records: records}
		if records > 0 && c.Timestamp >= 0 {
			l.Seconds = max(time.Since(time.UnixMilli(c.Timestamp)).Seconds(), 0)
		}
		lag[c.Partition] = l
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Lag = lag
}

// show keeps the status up to date.
func (w *slot) show(paused bool) {
	w.paused = paused
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Changelog, w.status.Slot = w.c.Name, w.number
	w.status.Buffered, w.status.Held, w.status.Paused = w.buffer.Rows(), w.stood+w.buffer.Held(), paused
}

func (w *slot) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Error = err.Error()
}
