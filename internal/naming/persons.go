package naming

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"sluice/internal/sluice"
)

// Persons are the names of a team's persons tables, all derived from the one that readers query. They are bare: the
// team's schema goes before them.
type Persons struct {
	Table          string // what readers query: the batch table, later the view
	DistinctIDs    string // the mappings that are served beside it
	Raw            string // current state of the persons topic
	DistinctIDsRaw string // current state of the mappings topic
	Streaming      string // the scratch view over the raw tables
}

const (
	personsStem  = "persons"
	personsBytes = 46 // the longest table name whose derived names are all within 63 bytes
)

var bareName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// PersonsTables derives the persons names of a team from its persons table. A name that is not bare, is too long, or makes
// two of them equal is SLUICE-PERSONS-NAME.
func PersonsTables(table string) (Persons, error) {
	refuse := func(what string) (Persons, error) {
		return Persons{}, sluice.E("SLUICE-PERSONS-NAME", fmt.Sprintf("derive the persons tables of %q", table), what,
			fmt.Sprintf("use lower-case letters, digits and underscores, at most %d, not beginning with a digit", personsBytes), nil)
	}
	switch {
	case !bareName.MatchString(table):
		return refuse("the name is not a bare identifier")
	case len(table) > personsBytes:
		return refuse("the name is too long for the names that are derived from it")
	}
	p := Persons{Table: table, DistinctIDs: distinctIDs(table), Raw: table + "_raw", Streaming: table + "_streaming"}
	p.DistinctIDsRaw = distinctIDs(p.Raw)
	seen := map[string]bool{}
	for _, name := range p.All() {
		if seen[name] {
			return refuse(fmt.Sprintf("two of its tables would be called %s", name))
		}
		seen[name] = true
	}
	return p, nil
}

// All lists the names that belong to the team's persons for good.
func (p Persons) All() []string {
	return []string{p.Table, p.DistinctIDs, p.Raw, p.DistinctIDsRaw, p.Streaming}
}

// SetAside is the name under which the batch table is kept after a cutover at a time.
func (p Persons) SetAside(cutover time.Time) string {
	return p.Table + "_batch_" + cutover.UTC().Format("20060102")
}

func distinctIDs(name string) string {
	if rest, ok := strings.CutPrefix(name, personsStem); ok {
		return personsStem + "_distinct_ids" + rest
	}
	return name + "_distinct_ids"
}
