package control

import (
	"context"
	"slices"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Discovery is what other systems learn of all warehouses, as of one generation. A warehouse or team that is not in it is
// gone. There are no secret values in it, only references.
type Discovery struct {
	ConfigGeneration int64       `json:"config_generation"`
	Warehouses       []Warehouse `json:"warehouses"`
}

// Warehouse is an org's warehouse as other systems see it.
type Warehouse struct {
	OrgID        sluice.Org          `json:"org_id"`
	State        sluice.OrgState     `json:"state" enum:"ready,paused,draining"`
	Writable     bool                `json:"writable"`
	NamingPolicy sluice.NamingPolicy `json:"naming_policy" enum:"legacy_batch_v1,copy_v1"`
	DatabaseName string              `json:"database_name"`
	Teams        []ServedTeam        `json:"teams"`
	Lake         ServedLake          `json:"lake"`
}

// ServedTeam is a team with its resolved names.
type ServedTeam struct {
	TeamID     sluice.TeamID `json:"team_id"`
	SchemaName string        `json:"schema_name"`
	Enabled    bool          `json:"enabled"`
	Tables
	EarliestEventDate string `json:"earliest_event_date,omitempty"`
}

// ServedLake says where a lake is.
type ServedLake struct {
	Catalog   string `json:"catalog"`
	DataPath  string `json:"data_path"`
	SecretRef string `json:"secret_ref"`
}

// Whether a warehouse of a state is listed, and whether it takes writes. Every state is in one of the two lists.
var (
	listedStates = []sluice.OrgState{sluice.OrgReady, sluice.OrgPaused, sluice.OrgDraining}
	absentStates = []sluice.OrgState{sluice.OrgPending, sluice.OrgProvisioning, sluice.OrgFailed, sluice.OrgDeleting}
)

// Writable reports whether a warehouse in a state takes writes.
func Writable(s sluice.OrgState) bool { return s == sluice.OrgReady }

// Listed reports whether a warehouse in a state is discovered at all.
func Listed(s sluice.OrgState) bool { return slices.Contains(listedStates, s) }

// Discovery reads all warehouses with their teams in one snapshot, the generation first. Any error fails the whole: half of
// an answer would say that the other half is gone.
func (s *Store) Discovery(ctx context.Context) (Discovery, error) {
	out := Discovery{Warehouses: []Warehouse{}}
	err := s.db.Snapshot(ctx, func(tx *statedb.Tx) (err error) {
		if out.ConfigGeneration, _, err = statedb.One(ctx, tx, queries.Get("CounterGet"), nil, statedb.Value[int64]); err != nil {
			return err
		}
		orgs, err := statedb.All(ctx, tx, queries.Get("OrgListVisible"), statedb.Args{"states": listedStates}, scanOrg)
		if err != nil {
			return err
		}
		teams, err := statedb.All(ctx, tx, queries.Get("TeamListAll"), nil, scanTeam)
		if err != nil {
			return err
		}
		served := map[sluice.Org][]ServedTeam{}
		for _, t := range teams {
			served[t.Org] = append(served[t.Org], ServedTeam{
				TeamID: t.TeamID, SchemaName: t.SchemaName, Enabled: t.Enabled, Tables: t.Tables(), EarliestEventDate: t.EarliestEventDate,
			})
		}
		for _, o := range orgs {
			w := Warehouse{
				OrgID: o.Org, State: o.State, Writable: Writable(o.State), NamingPolicy: o.NamingPolicy, DatabaseName: o.DatabaseName,
				Teams: served[o.Org], Lake: ServedLake{Catalog: o.Lake.Catalog, DataPath: o.Lake.DataPath, SecretRef: o.Lake.SecretRef},
			}
			if w.Teams == nil {
				w.Teams = []ServedTeam{}
			}
			out.Warehouses = append(out.Warehouses, w)
		}
		return nil
	})
	return out, err
}

// WarehouseTeamIDs lists the teams of all listed warehouses, sorted.
func (s *Store) WarehouseTeamIDs(ctx context.Context) ([]sluice.TeamID, error) {
	d, err := s.Discovery(ctx)
	ids := []sluice.TeamID{}
	for _, w := range d.Warehouses {
		for _, t := range w.Teams {
			ids = append(ids, t.TeamID)
		}
	}
	slices.Sort(ids)
	return ids, err
}
