package lake

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Verify says what a table is checked for before it goes live, and may be at any time (backfill.md §7).
type Verify struct {
	Keys       []string    `json:"keys,omitempty"`        // unique and not NULL; empty: not asked
	NullsMatch bool        `json:"nulls_match,omitempty"` // NULL is a key like any other
	Checks     []Check     `json:"checks,omitempty"`
	Partitions *Partitions `json:"partitions,omitempty"`
}

// Check is a user's own check: SQL that gives one number; {table} stands for the table.
type Check struct {
	Name      string  `json:"name"`
	SQL       string  `json:"sql"`
	Expected  float64 `json:"expected"`
	Tolerance float64 `json:"tolerance,omitempty"`
}

// Partitions are the numbers of rows that the source has per partition.
type Partitions struct {
	Columns []string         `json:"columns"`
	Rows    []PartitionCount `json:"rows"`
}

// PartitionCount is the number of rows of one partition; nil values are NULL.
type PartitionCount struct {
	Values []*string `json:"values"`
	Rows   int64     `json:"rows"`
}

// Verified is what a table holds.
type Verified struct {
	Rows       int64 // counted by opening the files
	NullKeys   int64
	DoubleKeys int64 // keys that more than one row has
	Checks     []float64
	Partitions []PartitionCount // that differ from what is wanted, with what there is
}

// Difference is a check that failed.
type Difference struct {
	Check    string `json:"check"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
}

// String renders the difference for people.
func (d Difference) String() string {
	return fmt.Sprintf("%s: expected %s, observed %s", d.Check, d.Expected, d.Observed)
}

// Judge compares what a table holds with what it must; rows below 0 are not known.
func (v *Verify) Judge(rows int64, is Verified) []Difference {
	var out []Difference
	add := func(check string, expected, observed any) {
		out = append(out, Difference{check, fmt.Sprint(expected), fmt.Sprint(observed)})
	}
	if rows >= 0 && is.Rows != rows {
		add("rows", rows, is.Rows)
	}
	if is.NullKeys > 0 {
		add("keys are not NULL", 0, fmt.Sprintf("%d rows", is.NullKeys))
	}
	if is.DoubleKeys > 0 {
		add("keys are unique", 0, fmt.Sprintf("%d keys with several rows", is.DoubleKeys))
	}
	if v == nil {
		return out
	}
	for i, c := range v.Checks {
		if i < len(is.Checks) && !(math.Abs(is.Checks[i]-c.Expected) <= c.Tolerance) {
			add("check "+c.Name, fmt.Sprintf("%v ± %v", c.Expected, c.Tolerance), is.Checks[i])
		}
	}
	for _, p := range is.Partitions {
		want := int64(0)
		for _, w := range v.Partitions.Rows {
			if partitionKey(w.Values) == partitionKey(p.Values) {
				want = w.Rows
			}
		}
		add("rows of partition "+partitionKey(p.Values), want, p.Rows)
	}
	return out
}

func partitionKey(values []*string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = "NULL"
		if v != nil {
			parts[i] = *v
		}
	}
	return strings.Join(parts, "/")
}

// VerifyTable looks at a table's rows. Each count opens the files: a bare count(*) is answered from the catalog, also if the
// files are gone.
func (s *Session) VerifyTable(ctx context.Context, t Table, v *Verify) (Verified, error) {
	var is Verified
	if v == nil {
		v = &Verify{}
	}
	doing := "verify table " + t.String()
	err := s.read(ctx, PhaseVerify, doing, func() error {
		columns, err := s.describe(ctx, t.SQL())
		if err != nil {
			return err
		}
		nulls := "false"
		if len(v.Keys) > 0 && !v.NullsMatch {
			nulls = anyNull(v.Keys)
		}
		err = s.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*)::BIGINT, count(*) FILTER (WHERE %s)::BIGINT, coalesce(bit_xor(hash(%s)), 0)::VARCHAR FROM %s",
			nulls, Ident(columns[0].Name), t.SQL())).Scan(&is.Rows, &is.NullKeys, new(string))
		if err != nil {
			return err
		}
		if len(v.Keys) > 0 {
			err := s.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*)::BIGINT FROM (SELECT 1 FROM %s GROUP BY %s HAVING count(*) > 1)", t.SQL(), identList(v.Keys))).Scan(&is.DoubleKeys)
			if err != nil {
				return err
			}
		}
		for _, c := range v.Checks {
			var observed float64
			if err := s.conn.QueryRow(ctx, fmt.Sprintf("SELECT (%s)::DOUBLE", strings.ReplaceAll(strings.TrimRight(c.SQL, "; \n\t"), "{table}", t.SQL()))).Scan(&observed); err != nil {
				return fmt.Errorf("check %s: %w", c.Name, err)
			}
			is.Checks = append(is.Checks, observed)
		}
		if v.Partitions == nil {
			return nil
		}
		is.Partitions, err = s.partitions(ctx, t, v.Partitions)
		return err
	})
	return is, err
}

// partitions gives the partitions whose number of rows is not the wanted one.
func (s *Session) partitions(ctx context.Context, t Table, want *Partitions) ([]PartitionCount, error) {
	values := make([]string, len(want.Columns))
	for i, c := range want.Columns {
		values[i] = Ident(c) + "::VARCHAR"
	}
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT [%s], count(*)::BIGINT FROM %s GROUP BY ALL", strings.Join(values, ", "), t.SQL()))
	if err != nil {
		return nil, err
	}
	have, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p PartitionCount, err error) {
		return p, row.Scan(&p.Values, &p.Rows)
	})
	if err != nil {
		return nil, err
	}
	left := map[string]PartitionCount{}
	for _, w := range want.Rows {
		left[partitionKey(w.Values)] = w
	}
	var out []PartitionCount
	for _, h := range have {
		key := partitionKey(h.Values)
		if left[key].Rows != h.Rows {
			out = append(out, h)
		}
		delete(left, key)
	}
	for _, w := range want.Rows { // what is not there at all
		if l, ok := left[partitionKey(w.Values)]; ok && l.Rows != 0 {
			out = append(out, PartitionCount{Values: w.Values})
		}
	}
	return out, nil
}
