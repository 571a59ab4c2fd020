package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// Bounds of a changelog's memory: a flush's file stays below half a gigabyte, and a buffer must hold a fetch.
const (
	leastFlush  = 1 << 10
	mostFlush   = 512 << 20
	leastMemory = 16 << 20
)

// kafka checks what belongs to brokers and changelogs.
func (r *reader) kafka(c *Config) {
	r.oneOf("kafka.tls.mode", c.Kafka.TLS.Mode, "off", "on")
	r.oneOf("kafka.sasl.mechanism", c.Kafka.SASL.Mechanism, "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
	for _, b := range c.Kafka.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			r.wrong("kafka.brokers", fmt.Sprintf("%q is not host:port", b))
		} else if c.Kafka.SASL.Mechanism == "PLAIN" && c.Kafka.TLS.Mode == "off" {
			if host, err := hostOf(b); err != nil || !Loopback(host) {
				r.wrong("kafka.tls.mode", "PLAIN without TLS would send the password in the clear: use TLS, or a SCRAM mechanism")
			}
		}
	}
	if (c.Kafka.TLS.CertFile == "") != (c.Kafka.TLS.KeyFile == "") {
		r.wrong("kafka.tls.key_file", "cert_file and key_file belong together")
	}
	if s := c.Changelog.FlushBytes; s < leastFlush || s > mostFlush {
		r.wrong("changelog.flush_bytes", "it must be between 1KiB and 512MiB")
	}
	if c.Changelog.MemoryLimit < leastMemory {
		r.wrong("changelog.memory_limit", "it must be at least 16MiB")
	}
	if s := c.Changelog.FetchMaxBytes; s < leastFlush || s > mostFlush {
		r.wrong("changelog.fetch_max_bytes", "it must be between 1KiB and 512MiB")
	}
	if c.Changelog.Lease.Heartbeat*2 > c.Changelog.Lease.TTL {
		r.wrong("changelog.lease.heartbeat", fmt.Sprintf("it must be at most half of changelog.lease.ttl, which is %s", c.Changelog.Lease.TTL))
	}
	var seen []int
	for _, s := range c.Changelog.Slots {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 63 || slices.Contains(seen, n) {
			r.wrong("changelog.slots", "it must be a list of different numbers from 0 to 63")
		}
		seen = append(seen, n)
	}
}
