package deltagen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Checkpoint says how a checkpoint is written. The zero value is one classic file with the version's whole state.
type Checkpoint struct {
	Parts       int      // more than 1: that many files
	V2          string   // json or parquet: the second form
	UUID        string   // of the second form's name; empty: one that the version gives
	ClassicName bool     // the second form under the classic name
	Sidecars    int      // the second form's file actions go into so many files
	Drop        []string // columns left out, such as add.deletionVector
	StructStats bool     // statistics as a struct, not as text
	NoRemoves   bool     // leave tombstones out
	Hint        bool     // write _last_checkpoint
	Actions     []Action // instead of the version's state
}

// columns of a checkpoint file, by the engine's types.
var columns = []struct {
	name   string
	fields []string
}{
	{"txn", []string{"appId VARCHAR", "version BIGINT", "lastUpdated BIGINT"}},
	{"add", []string{
		"path VARCHAR", "partitionValues MAP(VARCHAR, VARCHAR)", "size BIGINT", "modificationTime BIGINT", "dataChange BOOLEAN", "stats VARCHAR",
		"tags MAP(VARCHAR, VARCHAR)", vectorType, "baseRowId BIGINT", "defaultRowCommitVersion BIGINT", statsType,
	}},
	{"remove", []string{"path VARCHAR", "deletionTimestamp BIGINT", "dataChange BOOLEAN", vectorType}},
	{"metaData", []string{
		"id VARCHAR", "name VARCHAR", "description VARCHAR", "format STRUCT(provider VARCHAR, options MAP(VARCHAR, VARCHAR))", "schemaString VARCHAR",
		"partitionColumns VARCHAR[]", "configuration MAP(VARCHAR, VARCHAR)", "createdTime BIGINT",
	}},
	{"protocol", []string{"minReaderVersion INTEGER", "minWriterVersion INTEGER", "readerFeatures VARCHAR[]", "writerFeatures VARCHAR[]"}},
	{"domainMetadata", []string{`"domain" VARCHAR`, "configuration VARCHAR", "removed BOOLEAN"}},
	{"checkpointMetadata", []string{"version BIGINT", "tags MAP(VARCHAR, VARCHAR)"}},
	{"sidecar", []string{"path VARCHAR", "sizeInBytes BIGINT", "modificationTime BIGINT", "tags MAP(VARCHAR, VARCHAR)"}},
}

const (
	vectorType = `deletionVector STRUCT(storageType VARCHAR, pathOrInlineDv VARCHAR, "offset" INTEGER, sizeInBytes INTEGER, cardinality BIGINT)`
	statsType  = "stats_parsed STRUCT(numRecords BIGINT)"
)

// Checkpoint writes a checkpoint of a version and gives the names of its files in the log, the one that names the others
// first.
func (g *Table) Checkpoint(version int64, c Checkpoint) []string {
	g.t.Helper()
	actions := c.Actions
	if actions == nil {
		actions = g.State(version).actions(!c.NoRemoves)
	}
	var names []string
	switch {
	case c.V2 != "" || c.ClassicName:
		names = g.v2(version, c, actions)
	case c.Parts > 1:
		parts := make([][]Action, c.Parts)
		for i, a := range actions {
			parts[i%c.Parts] = append(parts[i%c.Parts], a)
		}
		for i, part := range parts {
			names = append(names, partName(version, i+1, c.Parts))
			g.parquet(names[i], part, c)
		}
	default:
		names = []string{classicName(version)}
		g.parquet(names[0], actions, c)
	}
	if c.Hint {
		hint := map[string]any{"version": version, "size": len(actions)}
		if c.Parts > 1 {
			hint["parts"] = c.Parts
		}
		g.WriteLog("_last_checkpoint", encode(hint))
	}
	return names
}

// actions are the lines of a checkpoint.
func (s State) actions(removes bool) []Action {
	var out []Action
	if s.Protocol != nil {
		out = append(out, *s.Protocol)
	}
	if s.Metadata != nil {
		out = append(out, *s.Metadata)
	}
	for _, a := range s.Live {
		a.DataChange = false
		out = append(out, a)
	}
	if removes {
		for _, r := range s.Removed {
			out = append(out, r)
		}
	}
	return out
}

func isFile(a Action) bool {
	switch a.(type) {
	case Add, Remove:
		return true
	}
	return false
}

func (g *Table) v2(version int64, c Checkpoint, actions []Action) []string {
	g.t.Helper()
	uuid := c.UUID
	if uuid == "" {
		uuid = fmt.Sprintf("00000000-0000-4000-8000-%012d", version)
	}
	name := fmt.Sprintf("%020d.checkpoint.%s.%s", version, uuid, c.V2)
	if c.ClassicName {
		name = classicName(version)
	}
	names := []string{name}
	top := []Action{Object{"checkpointMetadata": map[string]any{"version": version}}}
	if c.Sidecars > 0 {
		parts := make([][]Action, c.Sidecars)
		n := 0
		for _, a := range actions {
			if isFile(a) {
				parts[n%c.Sidecars] = append(parts[n%c.Sidecars], a)
				n++
			} else {
				top = append(top, a)
			}
		}
		for i, part := range parts {
			base := fmt.Sprintf("%s-%d.parquet", uuid, i)
			sidecar := "_sidecars/" + base
			g.parquet(sidecar, part, Checkpoint{Drop: c.Drop, StructStats: c.StructStats})
			info, err := os.Stat(g.Log(sidecar))
			g.must(err)
			top = append(top, Object{"sidecar": map[string]any{"path": base, "sizeInBytes": info.Size(), "modificationTime": 1_700_000_000_000}})
			names = append(names, sidecar)
		}
	} else {
		top = append(top, actions...)
	}
	if c.V2 == "json" {
		var b bytes.Buffer
		for _, a := range top {
			b.Write(a.Line())
			b.WriteByte('\n')
		}
		g.WriteLog(name, b.Bytes())
	} else {
		g.parquet(name, top, c)
	}
	return names
}

// parquet writes actions as a Parquet file of the log.
func (g *Table) parquet(name string, actions []Action, c Checkpoint) {
	g.t.Helper()
	lines, err := os.CreateTemp(g.t.TempDir(), "actions-*.json")
	g.must(err)
	defer os.Remove(lines.Name())
	for _, a := range actions {
		line := a.Line()
		if add, ok := a.(Add); ok && c.StructStats {
			line = structStats(add)
		}
		_, err := lines.Write(append(line, '\n'))
		g.must(err)
	}
	g.must(lines.Close())
	var specs []string
	for _, col := range columns {
		second := col.name == "sidecar" || col.name == "checkpointMetadata"
		if second && c.V2 == "" && !c.ClassicName || slices.Contains(c.Drop, col.name) {
			continue
		}
		var fields []string
		for _, f := range col.fields {
			field := col.name + "." + strings.Trim(strings.SplitN(f, " ", 2)[0], `"`)
			if slices.Contains(c.Drop, field) || f == statsType && !c.StructStats || field == "add.stats" && c.StructStats {
				continue
			}
			fields = append(fields, f)
		}
		specs = append(specs, fmt.Sprintf("%s: %s", col.name, Quote("STRUCT("+strings.Join(fields, ", ")+")")))
	}
	query := fmt.Sprintf("SELECT * FROM read_json(%s, format = 'newline_delimited', maximum_object_size = 268435456, columns = {%s})",
		Quote(lines.Name()), strings.Join(specs, ", "))
	if len(actions) == 0 { // the engine reads no empty file
		g.must(os.WriteFile(lines.Name(), []byte("{}\n"), 0o600))
		query += " LIMIT 0"
	}
	g.must(os.MkdirAll(filepath.Dir(g.Log(name)), 0o755))
	g.Copy(g.Log(name), query)
}

// structStats is an add whose statistics are a struct.
func structStats(a Add) []byte {
	var body map[string]map[string]any
	if err := json.Unmarshal(a.Line(), &body); err != nil {
		panic(err) // of our own making
	}
	if text, ok := body["add"]["stats"].(string); ok {
		body["add"]["stats_parsed"] = json.RawMessage(text)
		delete(body["add"], "stats")
	}
	return encode(body)
}
