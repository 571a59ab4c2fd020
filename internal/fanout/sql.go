package fanout

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/lake"
)

// Columns of a side file besides the destination's own.
const (
	epochColumn  = "_sluice_epoch"
	offsetColumn = "_sluice_offset"
	partColumn   = "_sluice_part"
	kindColumn   = "_sluice_kind"
	whyColumn    = "_sluice_why"
)

// Kinds of rows in a side file. What is none of them is the reason for which a row goes to quarantine.
const (
	kindRow    = "row"
	kindTomb   = "tomb"   // a message without a value: its key is to be marked as deleted
	kindDelete = "delete" // of a source whose rows are deleted
	kindAway   = "away"   // the newest row of the key belongs to another destination
)

// Script builds the SQL of one fan-out: what is read from the source, and what is done with it at a destination.
type Script struct {
	Def Definition
	Out Projection
}

// Target of a route: where rows with this value go.
type Target struct{ Route, Org, Destination string }

// newest orders the rows of a key, the winner first: the SQL of Compare. Rows of a table that is updated have no order but
// that of the snapshots: there a version may well fall.
func (s Script) newest(alias string) string {
	var version []string
	if s.Out.Version != "" {
		version = []string{alias + lake.Ident(s.Out.Version) + " DESC NULLS LAST"}
	}
	order := []string{alias + epochColumn + " DESC", alias + offsetColumn + " DESC", alias + partColumn + " DESC"}
	if s.Def.Kind == SourceTable {
		return strings.Join(append(order, version...), ", ")
	}
	return strings.Join(append(version, order...), ", ")
}

func (s Script) keys() string {
	out := make([]string, len(s.Out.Keys))
	for i, k := range s.Out.Keys {
		out[i] = lake.Ident(k)
	}
	return strings.Join(out, ", ")
}

func (s Script) names(alias string) string {
	var out []string
	for _, n := range s.Out.Names() {
		out = append(out, alias+lake.Ident(n))
	}
	return strings.Join(out, ", ")
}

// whole reports whether the winner of a key is looked for among the rows of all destinations.
func (s Script) whole() bool { return s.Def.Moved == MovedEvict }

// projected gives the rows of a relation f of the source as rows of side files, with org and destination where they have one.
// identity gives epoch, offset and part.
func (s Script) projected(from, kind string, identity [3]string, targets []Target) string {
	values := make([]string, len(targets))
	for i, t := range targets {
		values[i] = fmt.Sprintf("(%s, %s, %s)", lake.Literal(t.Route), lake.Literal(t.Org), lake.Literal(hexID(t.Destination)))
	}
	join := "JOIN"
	if s.whole() {
		join = "LEFT JOIN"
	}
	items := []string{"r.org", "r.dest"}
	var strict, nulls, bad, why []string
	for _, o := range s.Out.Outputs {
		items = append(items, o.Value+" AS "+lake.Ident(o.Name))
		if slices.Contains(s.Out.Keys, o.Name) {
			nulls = append(nulls, "("+o.Value+") IS NULL")
		}
		if o.Bad == "" || o.NullIfBad {
			continue
		}
		why = append(why, fmt.Sprintf("CASE WHEN %s THEN %s END", o.Bad, lake.Literal(o.Name)))
		if o.Strict {
			strict = append(strict, o.Bad)
		} else {
			bad = append(bad, o.Bad)
		}
	}
	var whens string
	for _, w := range []struct {
		reason string
		when   []string
	}{{"bad_key", strict}, {"null_key", nulls}, {"bad_value", bad}} {
		if len(w.when) > 0 {
			whens += fmt.Sprintf("WHEN %s THEN '%s' ", strings.Join(w.when, " OR "), w.reason)
		}
	}
	reason, detail := kind, "CAST(NULL AS VARCHAR)"
	if whens != "" {
		reason = "CASE " + whens + "ELSE " + kind + " END"
	}
	if len(why) > 0 {
		detail = "concat_ws(', ', " + strings.Join(why, ", ") + ")"
	}
	items = append(items, identity[0]+" AS "+epochColumn, identity[1]+" AS "+offsetColumn, identity[2]+" AS "+partColumn, reason+" AS "+kindColumn, detail+" AS "+whyColumn)
	return fmt.Sprintf("SELECT %s FROM %s %s (VALUES %s) AS r(route, org, dest) ON CAST(f.%s AS VARCHAR) = r.route", strings.Join(items, ", "), from, join,
		strings.Join(values, ", "), lake.Ident(s.Def.Route))
}

// changelogKind is the kind of a changelog's row.
func (s Script) changelogKind() string {
	if s.Def.Tombstones == TombstonesMark {
		return fmt.Sprintf("CASE WHEN f._tombstone THEN '%s' ELSE '%s' END", kindTomb, kindRow)
	}
	return "'" + kindRow + "'"
}

var changelogIdentity = [3]string{"f._topic_epoch", "f._offset", "f._partition"}

// resolved leaves one row of each kind and key; what is no row of a key stays.
func (s Script) resolved(rows string) string {
	if s.Def.Mode == AppendOnly { // a message that is there twice is one row
		return fmt.Sprintf("SELECT * FROM (%s) QUALIFY row_number() OVER (PARTITION BY dest, %s, %s, %s) = 1", rows, epochColumn, offsetColumn, partColumn)
	}
	partition := []string{s.keys()}
	if !s.whole() {
		partition = append(partition, "dest")
	}
	order := s.newest("")
	if s.Def.Kind == SourceChangelog { // a delete and a row of one key compete in a table; a mark goes beside the row
		partition = append(partition, kindColumn)
	}
	return fmt.Sprintf("SELECT * FROM (%s) QUALIFY %s NOT IN ('%s', '%s', '%s') OR row_number() OVER (PARTITION BY %s ORDER BY %s) = 1",
		rows, kindColumn, kindRow, kindTomb, kindDelete, strings.Join(partition, ", "), order)
}

// WindowSQL selects the rows of a window of the source.
func (s Script) WindowSQL(source lake.Table, w Window, targets []Target) string {
	if s.Def.Kind == SourceTable {
		return s.resolved(s.changesSQL(source, w, targets))
	}
	from := fmt.Sprintf("(SELECT * FROM ducklake_table_insertions(%s, %s, %s, %d, %d)%s) AS f", lake.Literal(lake.Catalog), lake.Literal(source.Schema),
		lake.Literal(source.Name), w.From, w.To, s.live())
	return s.resolved(s.projected(from, s.changelogKind(), changelogIdentity, targets))
}

// live leaves out messages without a value where nobody wants them.
func (s Script) live() string {
	if s.Def.Tombstones == TombstonesMark {
		return ""
	}
	return " WHERE _tombstone IS NOT TRUE"
}

// changesSQL selects what one snapshot of a table changed: rows as they are afterwards, and deletes where a row has left the
// destination. A row is followed by its id only inside the snapshot (spec/fanout.md §3.2).
func (s Script) changesSQL(source lake.Table, w Window, targets []Target) string {
	route := lake.Ident(s.Def.Route)
	changes := fmt.Sprintf("SELECT DISTINCT ON (rowid, change_type) * FROM ducklake_table_changes(%s, %s, %s, %d, %d)", lake.Literal(lake.Catalog),
		lake.Literal(source.Schema), lake.Literal(source.Name), w.From, w.To)
	from := fmt.Sprintf("(WITH c AS MATERIALIZED (%[1]s) "+
		"SELECT c.*, '%[2]s' AS %[4]s FROM c WHERE change_type IN ('insert', 'update_postimage') UNION ALL "+
		"SELECT c.*, '%[3]s' FROM c WHERE change_type = 'delete' UNION ALL "+
		"SELECT c.*, '%[3]s' FROM c WHERE change_type = 'update_preimage' AND NOT EXISTS (SELECT 1 FROM c AS p WHERE p.rowid = c.rowid "+
		"AND p.change_type = 'update_postimage' AND p.%[5]s IS NOT DISTINCT FROM c.%[5]s%[6]s)) AS f", changes, kindRow, kindDelete, kindColumn, route, s.sameKeys())
	// Of a row that is deleted and another one inserted under the same key in one snapshot, the inserted one is there.
	return s.projected(from, "f."+kindColumn, [3]string{"0", fmt.Sprintf("CAST(%d AS BIGINT)", w.From), fmt.Sprintf("CASE WHEN f.%s = '%s' THEN 1 ELSE 0 END", kindColumn, kindRow)}, targets)
}

// sameKeys compares the source columns of the keys of two images of a row.
func (s Script) sameKeys() string {
	var out strings.Builder
	for _, k := range s.Out.Keys {
		fmt.Fprintf(&out, " AND p.%[1]s IS NOT DISTINCT FROM c.%[1]s", lake.Ident(s.Def.from(k)))
	}
	return out.String()
}

// HistorySQL selects a chunk of the history of destinations as of a snapshot.
func (s Script) HistorySQL(source lake.Table, snapshot int64, chunk, chunks int, targets []Target) string {
	where := "true"
	if s.Def.Kind == SourceChangelog && s.Def.Tombstones != TombstonesMark {
		where = "_tombstone IS NOT TRUE"
	}
	if chunks > 1 {
		where += fmt.Sprintf(" AND hash(%s) %% %d = %d", s.chunkBy(), chunks, chunk)
	}
	if !s.whole() {
		routes := make([]string, len(targets))
		for i, t := range targets {
			routes[i] = lake.Literal(t.Route)
		}
		where += fmt.Sprintf(" AND CAST(%s AS VARCHAR) IN (%s)", lake.Ident(s.Def.Route), strings.Join(routes, ", "))
	}
	from := fmt.Sprintf("(SELECT * FROM %s AT (VERSION => %d) WHERE %s) AS f", source.SQL(), snapshot, where)
	if s.Def.Kind == SourceTable {
		return s.resolved(s.projected(from, "'"+kindRow+"'", [3]string{"0", fmt.Sprintf("CAST(%d AS BIGINT)", snapshot), "0"}, targets))
	}
	return s.resolved(s.projected(from, s.changelogKind(), changelogIdentity, targets))
}

// chunkBy is what tells the chunks of a history apart: rows of one key are in one chunk.
func (s Script) chunkBy() string {
	if s.Def.Mode == AppendOnly {
		return "_partition, _offset"
	}
	var out []string
	for _, k := range s.Out.Keys {
		out = append(out, lake.Ident(s.Def.from(k)))
	}
	return strings.Join(out, ", ")
}

// UnroutedSQL counts rows of a window by the value of their route, where it leads nowhere.
func (s Script) UnroutedSQL(source lake.Table, w Window, targets []Target) string {
	routes := make([]string, len(targets))
	for i, t := range targets {
		routes[i] = lake.Literal(t.Route)
	}
	route := "CAST(" + lake.Ident(s.Def.Route) + " AS VARCHAR)"
	fn := "ducklake_table_insertions"
	if s.Def.Kind == SourceTable {
		fn = "ducklake_table_changes"
	}
	return fmt.Sprintf("SELECT coalesce(%[1]s, ''), count(*) FROM %[2]s(%[3]s, %[4]s, %[5]s, %[6]d, %[7]d) WHERE %[1]s IS NULL OR %[1]s NOT IN (%[8]s) "+
		"GROUP BY 1 ORDER BY 2 DESC LIMIT 100", route, fn, lake.Literal(lake.Catalog), lake.Literal(source.Schema), lake.Literal(source.Name), w.From, w.To,
		strings.Join(routes, ", "))
}

func pathList(paths []string) string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = lake.PathLiteral(p)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func sideFiles(paths []string) string {
	return "read_parquet(" + pathList(paths) + ", union_by_name = true, hive_partitioning = false)"
}

// winners selects the newest row of each key among side files, away rows included.
func (s Script) winners(paths []string, kinds ...string) string {
	quoted := make([]string, len(kinds))
	for i, k := range kinds {
		quoted[i] = "'" + k + "'"
	}
	q := fmt.Sprintf("SELECT * FROM %s WHERE %s IN (%s)", sideFiles(paths), kindColumn, strings.Join(quoted, ", "))
	return fmt.Sprintf("%s QUALIFY row_number() OVER (PARTITION BY %s ORDER BY %s) = 1", q, s.keys(), s.newest(""))
}

// InsertSQL adds the rows of side files to a table: all of them, or the winners.
func (s Script) InsertSQL(into lake.Table, paths []string) string {
	stamp, value := "", ""
	if s.Out.Stamped {
		stamp, value = ", "+insertedAtColumn, ", now()"
	}
	rows := fmt.Sprintf("(SELECT * FROM %s WHERE %s = '%s')", sideFiles(paths), kindColumn, kindRow)
	columns := s.names("s.")
	if s.Def.Mode == CurrentState {
		rows = "(" + s.marked(paths) + ")"
		return fmt.Sprintf("INSERT INTO %s (%s%s) SELECT %s%s FROM %s AS s WHERE s._sluice_is_row", into.SQL(), s.names(""), stamp, s.markedNames(), value, rows)
	}
	return fmt.Sprintf("INSERT INTO %s (%s%s) SELECT %s%s FROM %s AS s", into.SQL(), s.names(""), stamp, columns, value, rows)
}

// markedNames are the columns of a row that is new to the table, where a tombstone behind it deletes it at once.
func (s Script) markedNames() string {
	var out []string
	for _, n := range s.Out.Names() {
		if s.Def.Tombstones == TombstonesMark && strings.EqualFold(n, s.Out.Deleted) {
			out = append(out, fmt.Sprintf("CASE WHEN s._sluice_after THEN true ELSE s.%s END", lake.Ident(n)))
			continue
		}
		out = append(out, "s."+lake.Ident(n))
	}
	return strings.Join(out, ", ")
}

// marked gives the winners among the rows, joined with the newest tombstone of their key: _sluice_is_row, _sluice_tomb, and
// _sluice_after, whether the tombstone is behind the row.
func (s Script) marked(paths []string) string {
	kinds := []string{kindRow}
	if s.whole() {
		kinds = append(kinds, kindAway)
	}
	w := s.winners(paths, kinds...)
	if s.whole() {
		w = fmt.Sprintf("SELECT * FROM (%s) WHERE %s = '%s'", w, kindColumn, kindRow)
	}
	if s.Def.Tombstones != TombstonesMark {
		return fmt.Sprintf("SELECT *, true AS _sluice_is_row, false AS _sluice_tomb, false AS _sluice_after FROM (%s)", w)
	}
	tomb := fmt.Sprintf("SELECT %s, max(row(%s, %s)) AS at FROM %s WHERE %s = '%s' GROUP BY ALL", s.keys(), epochColumn, offsetColumn, sideFiles(paths), kindColumn, kindTomb)
	var items, on []string
	for _, n := range s.Out.Names() {
		if slices.Contains(s.Out.Keys, n) {
			items = append(items, fmt.Sprintf("coalesce(w.%[1]s, m.%[1]s) AS %[1]s", lake.Ident(n)))
			on = append(on, fmt.Sprintf("w.%[1]s = m.%[1]s", lake.Ident(n)))
			continue
		}
		items = append(items, "w."+lake.Ident(n))
	}
	return fmt.Sprintf("SELECT %s, w.%s IS NOT NULL AS _sluice_is_row, m.at IS NOT NULL AS _sluice_tomb, coalesce(m.at > row(w.%s, w.%s), false) AS _sluice_after "+
		"FROM (%s) AS w FULL JOIN (%s) AS m ON %s", strings.Join(items, ", "), kindColumn, epochColumn, offsetColumn, w, tomb, strings.Join(on, " AND "))
}

// MergeSQL applies the winners of side files to a table: the SQL of Guard. With each UPDATE guarded by the version, whatever is
// applied again or late changes nothing.
func (s Script) MergeSQL(into lake.Table, destination string, paths []string) []string {
	var out []string
	if s.Def.Kind == SourceTable {
		out = append(out, s.deleteSQL(into, paths, kindDelete))
	}
	if s.whole() {
		out = append(out, s.awaySQL(destination, paths)...)
		out = append(out, s.deleteSQL(into, paths, kindAway))
	}
	source := s.marked(paths)
	if s.whole() {
		source = s.notAway(source, destination)
	}
	if s.Def.Kind == SourceTable {
		source = fmt.Sprintf("SELECT *, true AS _sluice_is_row, false AS _sluice_tomb, false AS _sluice_after FROM (%s) WHERE %s = '%s'",
			s.winners(paths, kindRow, kindDelete), kindColumn, kindRow)
	}
	var on, set, differs, values []string
	mark := s.Def.Tombstones == TombstonesMark
	for _, o := range s.Out.Outputs {
		n := lake.Ident(o.Name)
		if slices.Contains(s.Out.Keys, o.Name) {
			on = append(on, fmt.Sprintf("t.%[1]s = s.%[1]s", n))
			continue
		}
		differs = append(differs, "("+lake.Differ(lake.Column{Name: o.Name, Type: o.Type})+")")
		switch {
		case mark && strings.EqualFold(o.Name, s.Out.Deleted):
			set = append(set, fmt.Sprintf("%[1]s = CASE WHEN %[2]s THEN true WHEN %[3]s THEN s.%[1]s ELSE t.%[1]s END", n, s.marks(), s.notOlder()))
		case mark:
			set = append(set, fmt.Sprintf("%[1]s = CASE WHEN %[2]s THEN s.%[1]s ELSE t.%[1]s END", n, s.notOlder()))
		default:
			set = append(set, fmt.Sprintf("%[1]s = s.%[1]s", n))
		}
	}
	when := s.notOlder()
	if len(differs) > 0 {
		when += " AND (" + strings.Join(differs, " OR ") + ")"
	}
	if mark {
		when = fmt.Sprintf("(%s) OR (%s AND t.%s IS DISTINCT FROM true)", when, s.marks(), lake.Ident(s.Out.Deleted))
	}
	columns := s.names("")
	values = append(values, s.markedNames())
	if s.Out.Stamped {
		set = append(set, insertedAtColumn+" = now()")
		columns += ", " + insertedAtColumn
		values = append(values, "now()")
	}
	q := fmt.Sprintf("MERGE INTO %s AS t USING (%s) AS s ON %s", into.SQL(), source, strings.Join(on, " AND "))
	if len(set) > 0 {
		q += fmt.Sprintf(" WHEN MATCHED AND (%s) THEN UPDATE SET %s", when, strings.Join(set, ", "))
	}
	return append(out, q+fmt.Sprintf(" WHEN NOT MATCHED AND s._sluice_is_row THEN INSERT (%s) VALUES (%s)", columns, strings.Join(values, ", ")))
}

// notOlder is true where the source's row is not older than the table's.
func (s Script) notOlder() string {
	if s.Out.Version == "" || s.Def.Kind == SourceTable {
		return "s._sluice_is_row"
	}
	v := lake.Ident(s.Out.Version)
	return fmt.Sprintf("(s._sluice_is_row AND (t.%[1]s IS NULL OR coalesce(s.%[1]s >= t.%[1]s, false)))", v)
}

// marks is true where a tombstone is behind the row that the table has afterwards.
func (s Script) marks() string {
	return fmt.Sprintf("(s._sluice_tomb AND (s._sluice_after OR NOT %s))", s.notOlder())
}

// deleteSQL removes the rows whose key has left the destination.
func (s Script) deleteSQL(into lake.Table, paths []string, kind string) string {
	var on []string
	for _, k := range s.Out.Keys {
		on = append(on, fmt.Sprintf("t.%[1]s = s.%[1]s", lake.Ident(k)))
	}
	if kind == kindAway && s.Out.Version != "" { // a row never goes back, nor away for an older one
		on = append(on, fmt.Sprintf("(t.%[1]s IS NULL OR t.%[1]s <= s.%[1]s)", lake.Ident(s.Out.Version)))
	}
	return fmt.Sprintf("DELETE FROM %s AS t USING (SELECT * FROM (%s) WHERE %s = '%s') AS s WHERE %s", into.SQL(), s.winners(paths, kindRow, kind), kindColumn, kind,
		strings.Join(on, " AND "))
}

// away compares the version of a source's row s with that of a key that has gone away, a.
func (s Script) away(than string) string {
	if s.Out.Version == "" {
		return "false"
	}
	v := lake.Ident(s.Out.Version)
	return fmt.Sprintf("(a.%[1]s IS NOT NULL AND coalesce(s.%[1]s %[2]s a.%[1]s, %[3]t))", v, than, than == "<")
}

func (s Script) onKeys(left, right string) string {
	on := make([]string, len(s.Out.Keys))
	for i, k := range s.Out.Keys {
		on[i] = fmt.Sprintf("%s.%s = %s.%[2]s", left, lake.Ident(k), right)
	}
	return strings.Join(on, " AND ")
}

// awayColumns are the columns of an away table.
func (s Script) awayColumns() []string {
	out := append([]string{}, s.Out.Keys...)
	if s.Out.Version != "" {
		out = append(out, s.Out.Version)
	}
	return out
}

// AwayTableSQL makes the table of the keys that have gone away.
func (s Script) AwayTableSQL(destination string) string {
	var columns []string
	for _, o := range s.Out.Outputs {
		if slices.Contains(s.awayColumns(), o.Name) {
			columns = append(columns, lake.Ident(o.Name)+" "+o.Type.String())
		}
	}
	return fmt.Sprintf("CREATE TABLE %s (%s)", AwayTable(destination).SQL(), strings.Join(columns, ", "))
}

// awaySQL remembers the keys that have gone away, and forgets those that are back.
func (s Script) awaySQL(destination string, paths []string) []string {
	t := AwayTable(destination).SQL()
	var columns, values []string
	for _, c := range s.awayColumns() {
		columns, values = append(columns, lake.Ident(c)), append(values, "s."+lake.Ident(c))
	}
	winners := s.winners(paths, kindRow, kindAway)
	merge := fmt.Sprintf("MERGE INTO %s AS a USING (SELECT * FROM (%s) WHERE %s = '%s') AS s ON %s", t, winners, kindColumn, kindAway, s.onKeys("a", "s"))
	if s.Out.Version != "" {
		v := lake.Ident(s.Out.Version)
		merge += fmt.Sprintf(" WHEN MATCHED AND (a.%[1]s IS NULL OR s.%[1]s > a.%[1]s) THEN UPDATE SET %[1]s = s.%[1]s", v)
	}
	merge += fmt.Sprintf(" WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)", strings.Join(columns, ", "), strings.Join(values, ", "))
	back := fmt.Sprintf("DELETE FROM %s AS a USING (SELECT * FROM (%s) WHERE %s = '%s') AS s WHERE %s AND NOT %s", t, winners, kindColumn, kindRow, s.onKeys("a", "s"), s.away("<"))
	return []string{back, merge}
}

// notAway leaves out rows that are older than what has taken their key elsewhere.
func (s Script) notAway(source, destination string) string {
	return fmt.Sprintf("SELECT s.* FROM (%s) AS s WHERE NOT EXISTS (SELECT 1 FROM %s AS a WHERE %s AND %s)", source, AwayTable(destination).SQL(), s.onKeys("a", "s"), s.away("<"))
}

// quarantineColumns are those of a changelog's quarantine.
const quarantineColumns = `topic_epoch INTEGER, kafka_partition INTEGER, kafka_offset BIGINT, ts TIMESTAMPTZ, reason VARCHAR, detail VARCHAR, ` +
	`"at" TIMESTAMPTZ, state VARCHAR, state_at TIMESTAMPTZ`

// QuarantineSQL keeps the identities of rows that cannot be applied; their content is in the source.
func (s Script) QuarantineSQL(destination string, paths []string) string {
	return fmt.Sprintf("INSERT INTO %s SELECT %s, %s, %s, NULL, %s, %s, now(), 'open', NULL FROM %s WHERE %s NOT IN ('%s', '%s', '%s', '%s')",
		QuarantineTable(destination).SQL(), epochColumn, partColumn, offsetColumn, kindColumn, whyColumn, sideFiles(paths), kindColumn,
		kindRow, kindTomb, kindDelete, kindAway)
}

// AwaySQL selects, from a file with the winners of all destinations, what one of them is to know: its own rows, and of the rows
// that are elsewhere nothing but their keys and versions.
func (s Script) AwaySQL(all, destination string) string {
	mine := fmt.Sprintf("dest = '%s'", hexID(destination))
	var items []string
	for _, o := range s.Out.Outputs {
		n := lake.Ident(o.Name)
		if slices.Contains(s.Out.Keys, o.Name) || o.Name == s.Out.Version {
			items = append(items, n)
			continue
		}
		items = append(items, fmt.Sprintf("CASE WHEN %s THEN %s END AS %[2]s", mine, n))
	}
	return fmt.Sprintf("SELECT %s, %s, %s, %s, CASE WHEN %[6]s THEN %[5]s ELSE '%[7]s' END AS %[5]s, %[8]s FROM read_parquet(%[9]s) WHERE %[6]s OR %[5]s = '%[10]s'",
		strings.Join(items, ", "), epochColumn, offsetColumn, partColumn, kindColumn, "coalesce("+mine+", false)", kindAway, whyColumn, lake.PathLiteral(all), kindRow)
}
