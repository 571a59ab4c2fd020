package changelog

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/testkit/house"
	"sluice/internal/testkit/kafka"
)

// full is whether tests run at the size of the specification rather than at CI's.
func full() bool { return os.Getenv("SLUICE_CHAOS") == "full" }

// message makes the n-th message of a partition: about 100 bytes of JSON.
func message(p int32, n int) string {
	return fmt.Sprintf(`{"id":%d,"team_id":%d,"event":"page view","at":"2026-01-01T00:00:00Z","value":%d.5,"ok":%t,"s":"abc%d"}`, int(p)*10_000_000+n, n%7, n%1000, n%2 == 0, n%99)
}

// produceMany writes n messages to each of so many partitions.
func produceMany(t testing.TB, k *kafka.Server, topic string, partitions int32, n int) {
	t.Helper()
	c := k.Client(t, kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(200_000))
	var once sync.Once
	for i := range n {
		for p := range partitions {
			c.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte(message(p, i))}, func(_ *kgo.Record, err error) {
				if err != nil {
					once.Do(func() { t.Errorf("produce: %v", err) })
				}
			})
		}
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// steps adds up what flushes took.
type steps struct {
	mu    sync.Mutex
	sum   map[string]time.Duration
	rows  int64
	bytes int64
	count int
}

func (s *steps) Flushed(_ *Changelog, f Flushed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum == nil {
		s.sum = map[string]time.Duration{}
	}
	for k, v := range f.Steps {
		s.sum[k] += v
	}
	s.rows += f.Rows
	s.bytes += f.FileBytes
	s.count++
}

func (s *steps) Fenced(*Changelog, int) {}

// TestThroughput compares the way from the broker into the lake with a plain COPY of the same rows, in the same run, and keeps
// the buffers' peak within their bound although the topic is there at once.
func TestThroughput(t *testing.T) {
	partitions, each := int32(8), 12_500
	if full() {
		each = 250_000
	}
	total := int(partitions) * each
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, partitions, nil)
	produceMany(t, w.k, topic, partitions, each)
	c := w.add("events", topic, 1, "")
	cfg := w.quick()
	cfg.MemoryLimit = 128 << 20
	cfg.Slot = SlotConfig{Thresholds: Thresholds{Bytes: 50 << 20, Interval: time.Second, MaxInterval: time.Nanosecond}}
	meter := &steps{}
	r := NewRunner(cfg, Deps{Store: w.store, Sessions: w.h.Dialer(), Files: LocalFiles{}, Log: w.log, Meter: meter})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	begin := time.Now()
	go func() { _ = r.Run(ctx); close(done) }()
	peak := int64(0)
	for {
		peak = max(peak, r.Held())
		meter.mu.Lock()
		rows := meter.rows
		meter.mu.Unlock()
		if rows >= int64(total) {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("%d of %d rows after %s", rows, total, time.Since(begin))
		}
		time.Sleep(5 * time.Millisecond) // a poll of a condition, and the sampling of the buffers
	}
	took := time.Since(begin)
	cancel()
	<-done
	w.until(fmt.Sprintf("SELECT count(*), count(DISTINCT (_partition, _offset)), sum(id) FROM %s", c.Table.SQL()),
		fmt.Sprintf("%d|%d|%d", total, total, sumOfIDs(int(partitions), each)))

	// The baseline: the same rows, from a file of the same messages, by one hand-written statement.
	s, err := w.h.Dialer().Open(t.Context(), rigOrg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b := NewBuffer(Limits{defaultMaxMessageBytes}, func() map[int32]int64 {
		m := map[int32]int64{}
		for p := range partitions {
			m[p] = 0
		}
		return m
	}())
	for i := range each {
		for p := range partitions {
			b.Add(&Message{Partition: p, Offset: int64(i), Value: []byte(message(p, i))}, time.Now())
		}
	}
	path := newKey(s, c, 0, 0, "baseline.parquet")
	f, err := LocalFiles{}.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.write(f); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	begin = time.Now()
	if _, err := s.Statement(t.Context(), "baseline", `COPY (SELECT p AS _partition, o AS _offset, j.* FROM (SELECT p, o, json_transform(v, '{"id":"BIGINT","team_id":"BIGINT","event":"VARCHAR","at":"VARCHAR","value":"DOUBLE","ok":"BOOLEAN","s":"VARCHAR"}') AS j FROM read_parquet('`+path+`'))) TO '`+path+`.out' (FORMAT parquet, COMPRESSION zstd)`); err != nil {
		t.Fatal(err)
	}
	baseline := time.Since(begin)
	t.Logf("%d rows in %s: %.0f rows/s on %d CPUs; %.1f times a plain COPY of the same messages (%s)", total, took.Round(time.Millisecond), float64(total)/took.Seconds(), runtime.NumCPU(), took.Seconds()/baseline.Seconds(), baseline.Round(time.Millisecond))
	t.Logf("%d flushes, %s of %s in steps: %v; peak of the buffers %d MiB of %d", meter.count, meter.sum["all"].Round(time.Millisecond), took.Round(time.Millisecond), meter.sum, peak>>20, cfg.MemoryLimit>>20)
	if limit := cfg.MemoryLimit + 50<<20; peak > limit {
		t.Errorf("the buffers held %d bytes, more than %d", peak, limit)
	}
}

func sumOfIDs(partitions, each int) int {
	sum := 0
	for p := range partitions {
		sum += p*10_000_000*each + each*(each-1)/2
	}
	return sum
}
