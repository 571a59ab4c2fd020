// Package kafka gives tests a real Kafka broker: one per test process, one topic per test, and, for tests that need TLS and
// SASL or stop it, private ones. It owns the broker processes and their temporary directories; a broker ends with the test
// process, also when that is killed. The broker's jars are what pom.xml names, put into build/kafka by `make kafka`.
//
// It is a test helper and never reaches the binary.
package kafka
