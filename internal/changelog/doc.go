// Package changelog keeps Kafka topics in append-only tables of lakes. It owns the registry of changelogs, the leases of their
// slots, and, in each lake, the control tables with the offsets, the tables of rows and the quarantine.
//
// It promises that every message of a topic is in its table once, or in the quarantine once, or was left out by a filter and
// counted, whatever dies: offsets are compare-and-set rows of the lake, in the transaction of the rows they stand for. It never
// commits anything to Kafka, and it never updates a row.
//
// decide.go, judge.go, trigger.go and values.go decide without IO; slot.go and sink.go do; decode.go and expression.go are the
// SQL between them.
package changelog
