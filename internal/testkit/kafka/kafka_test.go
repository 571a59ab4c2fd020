package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"sluice/internal/testkit/kafka"
)

func TestMain(m *testing.M) {
	code := m.Run()
	kafka.Shutdown()
	os.Exit(code)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	s := kafka.New(t)
	topic := s.Topic(t, 2, nil)
	s.Produce(t, topic, 1, "a", "b")
	c := s.Client(t, kgo.ConsumeTopics(topic))
	var got []string
	for len(got) < 2 {
		f := c.PollFetches(t.Context())
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if got[0] != "a" || got[1] != "b" {
		t.Fatal(got)
	}
}

func TestSecureListener(t *testing.T) {
	t.Parallel()
	s := kafka.Start(t, kafka.Options{Users: map[string]string{"alice": "correct horse"}})
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in the file")
	}
	for password, ok := range map[string]bool{"correct horse": true, "wrong": false} {
		c, err := kgo.NewClient(kgo.SeedBrokers(s.SecureAddr()), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
			kgo.SASL(scram.Auth{User: "alice", Pass: password}.AsSha512Mechanism()))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(t.Context()); (err == nil) != ok {
			t.Errorf("password right: %t, got %v", ok, err)
		}
		c.Close()
	}
}
