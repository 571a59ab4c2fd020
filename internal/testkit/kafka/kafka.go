package kafka

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	shared    *Server
	sharedErr error
	once      sync.Once
	number    atomic.Int64
)

// New gives the broker that the tests of this process share. Where no broker is installed the test is skipped, or fails if CI
// or SLUICE_REQUIRE_SERVICES is set.
func New(t testing.TB) *Server {
	t.Helper()
	once.Do(func() { shared, sharedErr = start(Options{}) })
	if sharedErr != nil {
		missing(t, sharedErr)
	}
	return shared
}

// Start gives a broker of the test's own. It ends with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := start(opts)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.remove)
	return s
}

// Shutdown ends the shared broker of this process and removes its directory. A TestMain calls it after m.Run.
func Shutdown() {
	if shared != nil {
		shared.remove()
	}
}

func missing(t testing.TB, err error) {
	t.Helper()
	if _, ferr := findJars(); ferr == nil || os.Getenv("CI") != "" || os.Getenv("SLUICE_REQUIRE_SERVICES") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Topic makes a topic of the test's own with settings like retention.ms, and gives its name.
func (s *Server) Topic(t testing.TB, partitions int32, settings map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("t-%d-%d", os.Getpid(), number.Add(1))
	s.CreateTopic(t, name, partitions, settings)
	return name
}

// CreateTopic makes a topic and waits until the broker leads its partitions.
func (s *Server) CreateTopic(t testing.TB, name string, partitions int32, settings map[string]string) {
	t.Helper()
	adm := s.Admin(t)
	config := map[string]*string{}
	for k, v := range settings {
		config[k] = &v
	}
	if _, err := adm.CreateTopic(t.Context(), partitions, 1, config, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	s.waitPartitions(t, adm, name, int(partitions))
}

// AddPartitions gives a topic n partitions in all.
func (s *Server) AddPartitions(t testing.TB, name string, n int) {
	t.Helper()
	adm := s.Admin(t)
	res, err := adm.UpdatePartitions(t.Context(), n, name)
	if err == nil {
		err = res.Error()
	}
	if err != nil {
		t.Fatalf("add partitions to topic %s: %v", name, err)
	}
	s.waitPartitions(t, adm, name, n)
}

func (s *Server) waitPartitions(t testing.TB, adm *kadm.Client, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		topics, err := adm.ListTopics(ctx, name)
		if err == nil {
			led := 0
			for _, p := range topics[name].Partitions {
				if p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
			if led == n {
				tick.Stop()
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for topic %s: %v", name, err)
		case <-tick.C:
		}
	}
}

// DeleteTopic removes a topic and waits until it is gone.
func (s *Server) DeleteTopic(t testing.TB, name string) {
	t.Helper()
	adm := s.Admin(t)
	if _, err := adm.DeleteTopic(t.Context(), name); err != nil {
		t.Fatalf("delete topic %s: %v", name, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		topics, err := adm.ListTopics(ctx, name)
		if err == nil && topics[name].Err != nil {
			tick.Stop()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait until topic %s is gone: %v", name, err)
		case <-tick.C:
		}
	}
}

// Cut removes the records of a partition below an offset, as retention does.
func (s *Server) Cut(t testing.TB, topic string, partition int32, below int64) {
	t.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topic, Partition: partition, At: below})
	res, err := s.Admin(t).DeleteRecords(t.Context(), o)
	if err == nil {
		err = res.Error()
	}
	if err != nil {
		t.Fatalf("cut topic %s below %d: %v", topic, below, err)
	}
}

// Client opens a client that ends with the test.
func (s *Server) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	base := []kgo.Opt{kgo.SeedBrokers(s.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50 * time.Millisecond)}
	c, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatalf("open a Kafka client: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Admin opens an administrator's client that ends with the test.
func (s *Server) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(s.Client(t))
}

// Produce writes values without keys to a partition, in order.
func (s *Server) Produce(t testing.TB, topic string, partition int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
	}
	s.Send(t, records...)
}

// Send writes records as they are.
func (s *Server) Send(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	c := s.Client(t)
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("write to topic: %v", err)
	}
}
