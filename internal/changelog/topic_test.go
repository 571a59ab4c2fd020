package changelog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/kafka"
)

// TestGapHaltsAndIsAccepted: retention ran past the lake; nothing is silent.
func TestGapHaltsAndIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	w.k.Produce(t, topic, 0, `{"id":0}`, `{"id":1}`, `{"id":2}`, `{"id":3}`)
	w.add("events", topic, 1, "")
	w.k.Cut(t, topic, 0, 2)
	w.run(w.quick())
	w.halted("events", "SLUICE-CHANGELOG-GAP")
	for _, wrong := range []Accept{AcceptTruncation, AcceptNewEpoch} {
		if err := w.admin.Resume(t.Context(), "events", wrong, tester); sluice.CodeOf(err) != "SLUICE-CHANGELOG-STATE" {
			t.Errorf("%s was taken: %v", wrong, err)
		}
	}
	if err := w.admin.Resume(t.Context(), "events", AcceptNothing, tester); err != nil { // without the acceptance it halts again
		t.Fatal(err)
	}
	w.halted("events", "SLUICE-CHANGELOG-GAP")
	if err := w.admin.Resume(t.Context(), "events", AcceptGap, tester); err != nil {
		t.Fatal(err)
	}
	w.until("SELECT string_agg(id::VARCHAR, ' ' ORDER BY id) FROM lake.changelog.events", "2 3")
	q, err := w.admin.Quarantine(t.Context(), "events", Selection{}, 10, false)
	if err != nil || len(q) != 1 || q[0].Reason != "gap" || q[0].Offset != 0 || q[0].Detail != "offsets 0 to 1 are lost" {
		t.Errorf("%+v, %v", q, err)
	}
	if n, err := w.admin.Discard(t.Context(), "events", Selection{Reason: "gap"}); err != nil || n != 1 {
		t.Errorf("discarded %d, %v", n, err)
	}
	if q, err := w.admin.Quarantine(t.Context(), "events", Selection{}, 10, false); err != nil || len(q) != 0 {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestGapIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	w.k.Produce(t, topic, 0, `{"id":0}`, `{"id":1}`, `{"id":2}`)
	w.add("events", topic, 1, "on_gap: skip")
	w.k.Cut(t, topic, 0, 1)
	w.run(w.quick())
	w.until("SELECT string_agg(id::VARCHAR, ' ' ORDER BY id) FROM lake.changelog.events", "1 2")
	if q, err := w.admin.Quarantine(t.Context(), "events", Selection{Reason: "gap"}, 10, false); err != nil || len(q) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestRecreatedTopicHalts: the same name, another topic; its messages come beside the old ones, in a new epoch.
func TestRecreatedTopicHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 2, nil)
	w.k.Produce(t, topic, 0, `{"id":0}`, `{"id":1}`)
	w.add("events", topic, 2, "")
	w.run(w.quick())
	w.until("SELECT count(*) FROM lake.changelog.events", "2")
	w.k.DeleteTopic(t, topic)
	w.k.CreateTopic(t, topic, 3, nil)
	w.k.Produce(t, topic, 0, `{"id":10}`)
	w.k.Produce(t, topic, 2, `{"id":12}`)
	w.halted("events", "SLUICE-CHANGELOG-TOPIC-RECREATED")
	if err := w.admin.Resume(t.Context(), "events", AcceptNewEpoch, tester); err != nil {
		t.Fatal(err)
	}
	w.until("SELECT string_agg(concat_ws(':', _topic_epoch, _partition, _offset, id), ' ' ORDER BY id) FROM lake.changelog.events", "0:0:0:0 0:0:1:1 1:0:0:10 1:2:0:12")
}

// TestTruncatedTopicHalts: the lake is ahead of the topic, as after an unclean election.
func TestTruncatedTopicHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	w.k.Produce(t, topic, 0, `{"id":0}`, `{"id":1}`)
	c := w.add("events", topic, 1, "")
	_, stop := w.run(w.quick())
	w.until("SELECT count(*) FROM lake.changelog.events", "2")
	stop()
	if _, err := w.h.Service(rigOrg).Exec(t.Context(), "UPDATE "+ControlTable(c.ID, 0).SQL()+" SET next_offset = 5 WHERE kind = 'offset'"); err != nil {
		t.Fatal(err)
	}
	w.run(w.quick())
	w.halted("events", "SLUICE-CHANGELOG-TRUNCATED")
	if err := w.admin.Resume(t.Context(), "events", AcceptTruncation, tester); err != nil {
		t.Fatal(err)
	}
	w.k.Produce(t, topic, 0, `{"id":2}`)
	w.until("SELECT string_agg(concat_ws(':', _topic_epoch, _offset, id), ' ' ORDER BY id) FROM lake.changelog.events", "0:0:0 0:1:1 1:2:2")
}

// TestAbortedTransactionsLeaveNoRow: read_committed, and a lag of 0 behind control records.
func TestAbortedTransactionsLeaveNoRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	p := w.k.Client(t, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	for i, commit := range []bool{true, false, true, false} {
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := p.ProduceSync(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, `{"id":%d}`, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
	}
	w.add("events", topic, 1, "")
	r, _ := w.run(w.quick())
	w.until("SELECT string_agg(concat_ws(':', _offset, id), ' ' ORDER BY id) FROM lake.changelog.events", "0:0 4:2")
	st, err := w.admin.Status(t.Context(), "events")
	if err != nil || st.Partitions[0].LagRecords != 0 || st.Partitions[0].LagSeconds != 0 {
		t.Errorf("%+v, %v", st.Partitions, err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // what the process itself says
		s := r.Status()
		if len(s) == 1 && s[0].Lag != nil && s[0].Lag[0].Records == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
		time.Sleep(50 * time.Millisecond) // a poll of a condition
	}
}

// TestCompressedTopics: what producers compress is read, whatever the codec; headers and keys that are not text are kept.
func TestCompressedTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		c := w.k.Client(t, kgo.ProducerBatchCompression(codec))
		rec := &kgo.Record{
			Topic: topic, Value: fmt.Appendf(nil, `{"id":%d,"s":%q}`, i, strings.Repeat("x", 500)), Key: []byte{byte('a' + i)},
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte{0xff}}},
		}
		if i == 4 {
			rec.Key = []byte{0xff, 0x00}
		}
		if err := c.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.add("events", topic, 1, "headers: true")
	w.run(w.quick())
	w.until("SELECT string_agg(id || _key, ' ' ORDER BY id), any_value(CAST(_headers AS VARCHAR)), sum(length(s)) FROM lake.changelog.events", `0a 1b 2c 3d 4base64:/wA=|[["h","1"],["h","base64:/w=="]]|2500`)
}

// TestSecureBroker: SCRAM over TLS; a wrong password is said, and is nowhere to be read.
func TestSecureBroker(t *testing.T) {
	t.Parallel()
	const right, wrong = "correct horse battery", "s3cret-but-wrong"
	w := newWorld(t, house.Options{})
	w.k = kafka.Start(t, kafka.Options{Users: map[string]string{"alice": right}})
	topic := w.k.Topic(t, 1, nil)
	w.k.Produce(t, topic, 0, `{"id":1}`)
	var log bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&syncWriter{w: &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	password := right
	cluster := func(mechanism string) Cluster {
		return Cluster{
			Brokers: []string{w.k.SecureAddr()}, TLS: TLS{Enabled: true, CAFile: w.k.CAFile()},
			SASL: SASL{Mechanism: mechanism, User: "alice", Password: func() (string, error) { return password, nil }},
		}
	}
	w.admin.Cluster, w.admin.Log = cluster("SCRAM-SHA-512"), w.log
	w.add("events", topic, 1, "")
	cfg := w.quick()
	cfg.Cluster = cluster("SCRAM-SHA-256")
	_, stop := w.run(cfg)
	w.until("SELECT max(id) FROM lake.changelog.events", "1")
	stop()
	password = wrong
	r, stop := w.run(cfg)
	deadline := time.Now().Add(30 * time.Second)
	for {
		if s := r.Status(); len(s) == 1 && strings.Contains(s[0].Error, "SLUICE-CHANGELOG-AUTH") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no SLUICE-CHANGELOG-AUTH: %+v", r.Status())
		}
		time.Sleep(50 * time.Millisecond) // a poll of a condition
	}
	_, _, err := w.admin.Add(t.Context(), NewChangelog{Name: "other", Lake: rigOrg, Topic: topic}, tester)
	if sluice.CodeOf(err) != "SLUICE-CHANGELOG-AUTH" {
		t.Errorf("add says %v", err)
	}
	stop()
	c, err2 := w.store.Get(t.Context(), "events")
	everything := fmt.Sprint(log.String(), err, sluice.HintOf(err), c, err2, r.Status())
	for _, secret := range []string{right, wrong} {
		if strings.Contains(everything, secret) {
			t.Errorf("a password is shown: %s", everything)
		}
	}
	if c.Halt != nil {
		t.Errorf("it is no halt: %+v", c.Halt)
	}
}

// TestPlainNeedsTLS: a password is not sent in the clear to another machine.
func TestPlainNeedsTLS(t *testing.T) {
	t.Parallel()
	c := Cluster{Brokers: []string{"broker.example:9092"}, SASL: SASL{Mechanism: "PLAIN", User: "u"}}
	if _, err := c.options(); sluice.CodeOf(err) != "SLUICE-CHANGELOG-AUTH" {
		t.Errorf("got %v", err)
	}
	c.Brokers = []string{"127.0.0.1:9092"}
	if _, err := c.options(); err != nil {
		t.Error(err)
	}
}
