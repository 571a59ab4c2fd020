package naming_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/naming"
	"sluice/internal/sluice"
)

func TestPersonsTables(t *testing.T) {
	t.Parallel()
	for _, v := range [][5]string{
		{"persons", "persons_distinct_ids", "persons_raw", "persons_distinct_ids_raw", "persons_streaming"},
		{"persons_ab12", "persons_distinct_ids_ab12", "persons_ab12_raw", "persons_distinct_ids_ab12_raw", "persons_ab12_streaming"},
		{"people", "people_distinct_ids", "people_raw", "people_raw_distinct_ids", "people_streaming"},
		{"personsx", "persons_distinct_idsx", "personsx_raw", "persons_distinct_idsx_raw", "personsx_streaming"},
		{"my_persons", "my_persons_distinct_ids", "my_persons_raw", "my_persons_raw_distinct_ids", "my_persons_streaming"},
		{"persons_distinct_ids", "persons_distinct_ids_distinct_ids", "persons_distinct_ids_raw", "persons_distinct_ids_distinct_ids_raw", "persons_distinct_ids_streaming"},
	} {
		p, err := naming.PersonsTables(v[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.All(), " "); got != strings.Join([]string{v[0], v[1], v[2], v[3], v[4]}, " ") {
			t.Errorf("%s: %s", v[0], got)
		}
	}
	p, err := naming.PersonsTables("people")
	if got := p.SetAside(time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("", -3600))); err != nil || got != "people_batch_20260302" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "Persons", "1p", "a b", "a.b", strings.Repeat("p", 47)} {
		if _, err := naming.PersonsTables(bad); sluice.CodeOf(err) != "SLUICE-PERSONS-NAME" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Whatever the name, what is derived from it fits and is five different tables.
func TestPersonsTablesFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.StringMatching(`(persons)?[a-z_][a-z0-9_]{0,38}`).Draw(t, "table")
		p, err := naming.PersonsTables(table)
		if err != nil {
			if sluice.CodeOf(err) != "SLUICE-PERSONS-NAME" {
				t.Fatal(err)
			}
			return
		}
		seen := map[string]bool{}
		for _, name := range append(p.All(), p.SetAside(time.Now())) {
			if len(name) > 63 || seen[name] {
				t.Fatalf("%s of %s is too long or there twice", name, table)
			}
			seen[name] = true
		}
	})
}
