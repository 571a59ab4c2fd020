package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/api"
	"sluice/internal/testkit/kafka"
)

// One binary takes a topic into a lake, is killed in the middle, and is asked by the commands an operator has.
func TestChangelogFromTheCommandLine(t *testing.T) {
	t.Parallel()
	broker := kafka.New(t)
	topic := broker.Topic(t, 2, nil)
	dir := t.TempDir()
	i := &installation{data: filepath.Join(dir, "data"), env: []string{
		"SLUICE_KAFKA__BROKERS=" + broker.Addr(), "SLUICE_CHANGELOG__FLUSH_INTERVAL=500ms", "SLUICE_CHANGELOG__POLL=200ms", "SLUICE_CHANGELOG__CHECK=1s",
		"SLUICE_CHANGELOG__LEASE__TTL=3s", "SLUICE_CHANGELOG__LEASE__HEARTBEAT=1s",
	}}
	p := i.serve(t)
	i.must(t, "org", "create", "acme")
	broker.Produce(t, topic, 0, `{"id":1,"name":"a"}`, `{"id":2,"name":"b"}`)
	broker.Produce(t, topic, 1, `{"id":3,"name":"c"}`, `nonsense`)
	config := filepath.Join(dir, "events.yaml")
	if err := os.WriteFile(config, []byte("columns: {name: {coerce: text}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Minute, "the org's warehouse is there", func() bool {
		_, _, code := i.try(t, "changelog", "add", "events", "--org", "acme", "--topic", topic, "--dry-run")
		return code == 0
	})
	added := answer[api.AddedChangelog](t, i, "changelog", "add", "events", "--org", "acme", "--topic", topic, "--slots", "2", "--config-file", config)
	if p := added.Preview; p.Messages != 4 || p.Poison["malformed_json"] != 1 || added.Changelog.Table != "events" {
		t.Errorf("%+v", added)
	}
	if _, stderr, code := i.try(t, "changelog", "add", "events", "--org", "acme", "--topic", topic); code != 4 || !strings.Contains(stderr, "SLUICE-CHANGELOG-EXISTS") {
		t.Errorf("added twice: exit code %d, %s", code, stderr)
	}
	caughtUp := func(quarantined int64) func() bool {
		return func() bool {
			st := answer[api.ChangelogStatus](t, i, "changelog", "status", "events")
			return st.LagRecords == 0 && st.Quarantine["malformed_json"] == quarantined
		}
	}
	waitFor(t, time.Minute, "the topic is in the lake", caughtUp(1))
	p.kill()
	broker.Produce(t, topic, 0, `{"id":4,"name":5}`)
	i.serve(t)
	waitFor(t, time.Minute, "the rest is in the lake after a kill", caughtUp(1))
	if text := i.must(t, "changelog", "quarantine", "show", "events"); !strings.Contains(text, "nonsense") {
		t.Errorf("the quarantine shows %s", text)
	}
	i.must(t, "changelog", "replay", "events")
	i.must(t, "changelog", "quarantine", "discard", "events", "--reason", "malformed_json")
	waitFor(t, time.Minute, "the quarantine is empty", caughtUp(0))
	i.must(t, "changelog", "pause", "events")
	if list := answer[api.ChangelogList](t, i, "changelog", "list"); len(list.Changelogs) != 1 || list.Changelogs[0].Status != "paused" {
		t.Errorf("%+v", list)
	}
	broker.Produce(t, topic, 1, `{"id":5,"name":"e"}`)
	if _, _, code := i.try(t, "changelog", "resume", "events", "--accept-gap"); code != 4 {
		t.Errorf("a gap was accepted where there is none: exit code %d", code)
	}
	i.must(t, "changelog", "resume", "events")
	waitFor(t, time.Minute, "it goes on", caughtUp(0))
	if _, _, code := i.try(t, "changelog", "drop", "events"); code != 4 {
		t.Errorf("a changelog that runs was dropped: exit code %d", code)
	}
	for _, args := range [][]string{{"status", "nothing"}, {"pause", "nothing"}, {"drop", "nothing"}} {
		if _, _, code := i.try(t, append([]string{"changelog"}, args...)...); code != 3 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	st := answer[api.ChangelogStatus](t, i, "changelog", "status", "events")
	sum := int64(0)
	for _, part := range st.Partitions {
		sum += part.NextOffset
	}
	if sum != 6 {
		t.Errorf("the lake has %d messages: %+v", sum, st.Partitions)
	}
	i.must(t, "changelog", "pause", "events")
	i.must(t, "changelog", "drop", "events", "--keep-table")
	if list := answer[api.ChangelogList](t, i, "changelog", "list"); len(list.Changelogs) != 0 {
		t.Errorf("%+v", list)
	}
}
