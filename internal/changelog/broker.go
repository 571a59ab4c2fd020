package changelog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"sluice/internal/sluice"
)

// Cluster says how to reach a Kafka cluster. Secrets are read when they are needed, so that they may rotate.
type Cluster struct {
	Brokers []string
	TLS     TLS
	SASL    SASL
}

// TLS of a cluster.
type TLS struct {
	Enabled    bool
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// SASL of a cluster.
type SASL struct {
	Mechanism string // "", PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM
	User      string
	Password  func() (string, error)
}

// Mechanisms are the SASL mechanisms that can be used.
var Mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"}

// Fetching is how much is fetched at once.
type Fetching struct {
	MaxBytes          int32
	MaxPartitionBytes int32
	MinBytes          int32
	MaxWait           time.Duration
}

func (f Fetching) withDefaults() Fetching {
	if f.MaxBytes == 0 {
		f.MaxBytes = 50 << 20
	}
	if f.MaxPartitionBytes == 0 {
		f.MaxPartitionBytes = 5 << 20
	}
	if f.MinBytes == 0 {
		f.MinBytes = 1 << 20
	}
	if f.MaxWait == 0 {
		f.MaxWait = 500 * time.Millisecond
	}
	return f
}

// options are what every client of the cluster has.
func (c Cluster) options() ([]kgo.Opt, error) {
	doing := "connect to Kafka"
	if len(c.Brokers) == 0 {
		return nil, sluice.E("SLUICE-CHANGELOG-TOPIC", doing, "no brokers are configured", "set kafka.brokers", nil)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("sluice"), kgo.DialTimeout(10 * time.Second), kgo.RequestRetries(3),
		kgo.MetadataMinAge(time.Second),
	}
	if c.TLS.Enabled {
		conf, err := c.TLS.config()
		if err != nil {
			return nil, sluice.E("SLUICE-CHANGELOG-AUTH", doing, "", "check kafka.tls", err)
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL.Mechanism == "" {
		return opts, nil
	}
	if c.SASL.Mechanism == "PLAIN" && !c.TLS.Enabled {
		for _, b := range c.Brokers {
			if host, _, err := net.SplitHostPort(b); err != nil || host != "localhost" && !net.ParseIP(host).IsLoopback() {
				return nil, sluice.E("SLUICE-CHANGELOG-AUTH", doing, "PLAIN without TLS would send the password in the clear", "set kafka.tls.enabled, or use SCRAM-SHA-512", nil)
			}
		}
	}
	read := func() (string, error) {
		if c.SASL.Password == nil {
			return "", nil
		}
		p, err := c.SASL.Password()
		if err != nil {
			return "", sluice.E("SLUICE-CHANGELOG-AUTH", doing, "the password cannot be read", "check kafka.sasl.password", err)
		}
		return p, nil
	}
	switch c.SASL.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Plain(func(context.Context) (plain.Auth, error) {
			p, err := read()
			return plain.Auth{User: c.SASL.User, Pass: p}, err
		})))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Sha256(func(context.Context) (scram.Auth, error) {
			p, err := read()
			return scram.Auth{User: c.SASL.User, Pass: p}, err
		})))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Sha512(func(context.Context) (scram.Auth, error) {
			p, err := read()
			return scram.Auth{User: c.SASL.User, Pass: p}, err
		})))
	case "OAUTHBEARER":
		opts = append(opts, kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			p, err := read()
			return oauth.Auth{Token: p}, err
		})))
	case "AWS_MSK_IAM":
		opts = append(opts, kgo.SASL(aws.ManagedStreamingIAM(func(context.Context) (aws.Auth, error) {
			p, err := read()
			return aws.Auth{AccessKey: c.SASL.User, SecretKey: p}, err
		})))
	default:
		return nil, sluice.E("SLUICE-CHANGELOG-AUTH", doing, fmt.Sprintf("SASL mechanism %q is not known", c.SASL.Mechanism), "use one of "+strings.Join(Mechanisms, ", "), nil)
	}
	return opts, nil
}

func (t TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read kafka.tls.ca_file: %s has no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.cert_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// admin opens a client for questions about topics.
func (c Cluster) admin() (*kadm.Client, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, sluice.E("SLUICE-CHANGELOG-TOPIC", "connect to Kafka", "", "check kafka.brokers", err)
	}
	return kadm.NewClient(client), nil
}

// lookTimeout bounds questions to the brokers.
const lookTimeout = 30 * time.Second

// describe asks the brokers about a topic.
func describe(ctx context.Context, adm *kadm.Client, topic string) (Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	out := Topic{Partitions: map[int32]Bounds{}}
	topics, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return out, topicError(topic, err)
	}
	d := topics[topic]
	if d.Err != nil {
		return out, topicError(topic, d.Err)
	}
	if d.ID != (kadm.TopicID{}) {
		out.ID = d.ID.String()
	}
	start, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = start.Error()
	}
	if err != nil {
		return out, topicError(topic, err)
	}
	end, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return out, topicError(topic, err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return out, topicError(topic, err)
	}
	for p := range d.Partitions {
		s, _ := start.Lookup(topic, p)
		e, _ := end.Lookup(topic, p)
		l, _ := stable.Lookup(topic, p)
		out.Partitions[p] = Bounds{s.Offset, e.Offset, l.Offset}
	}
	return out, nil
}

// startOffsets resolves where a new changelog begins.
func startOffsets(ctx context.Context, adm *kadm.Client, topic string, start string, t Topic) (map[int32]int64, error) {
	out := map[int32]int64{}
	switch start {
	case StartEarliest:
		for p, b := range t.Partitions {
			out[p] = b.Start
		}
		return out, nil
	case StartLatest:
		for p, b := range t.Partitions {
			out[p] = b.End
		}
		return out, nil
	}
	at, err := time.Parse(time.RFC3339, start)
	if err != nil {
		return nil, invalid("start is %q", start)
	}
	offsets, err := adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, topicError(topic, err)
	}
	for p, b := range t.Partitions {
		out[p] = b.End
		if o, ok := offsets.Lookup(topic, p); ok && o.Offset >= 0 {
			out[p] = o.Offset
		}
	}
	return out, nil
}

// topicError says what keeps a topic from being read. It is no halt: it is tried again.
func topicError(topic string, err error) error {
	var known *sluice.Error
	if errors.As(err, &known) {
		return err
	}
	doing := "read topic " + topic
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed),
		errors.Is(err, kerr.GroupAuthorizationFailed), strings.Contains(err.Error(), "SASL"), strings.Contains(err.Error(), "x509:"), strings.Contains(err.Error(), "tls:"):
		return sluice.E("SLUICE-CHANGELOG-AUTH", doing, "the brokers refuse it: "+err.Error(), "check kafka.sasl and kafka.tls, and the user's right to read and describe the topic; it is tried again by itself", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return sluice.E("SLUICE-CHANGELOG-TOPIC", doing, "there is no such topic", "create it, or check kafka.brokers; it is tried again by itself", err)
	}
	return sluice.E("SLUICE-CHANGELOG-TOPIC", doing, "the brokers do not answer: "+err.Error(), "check kafka.brokers; it is tried again by itself", err)
}

// consumer opens a client that fetches a slot's partitions from where the lake goes on.
func (c Cluster) consumer(cl *Changelog, cursors []Cursor, f Fetching) (*kgo.Client, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	offsets := map[int32]kgo.Offset{}
	for _, cur := range cursors {
		offsets[cur.Partition] = kgo.NewOffset().At(cur.Next).WithEpoch(cur.LeaderEpoch)
	}
	isolation := kgo.ReadCommitted()
	if cl.Def.Isolation == ReadUncommitted {
		isolation = kgo.ReadUncommitted()
	}
	f = f.withDefaults()
	opts = append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{cl.Topic: offsets}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxBytes(f.MaxBytes), kgo.FetchMaxPartitionBytes(f.MaxPartitionBytes), kgo.FetchMinBytes(f.MinBytes), kgo.FetchMaxWait(f.MaxWait),
		kgo.BrokerMaxReadBytes(max(100<<20, 2*f.MaxBytes)), kgo.MaxConcurrentFetches(1), kgo.KeepRetryableFetchErrors(), kgo.KeepControlRecords(),
	)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, sluice.E("SLUICE-CHANGELOG-TOPIC", "connect to Kafka", "", "check kafka.brokers", err)
	}
	return client, nil
}
