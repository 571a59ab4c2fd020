package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Fanouts is what the routes need of the fan-outs; they are another role's.
type Fanouts interface {
	Add(ctx context.Context, n NewFanout, by control.By) (AddedFanout, error)
	List(ctx context.Context) ([]Fanout, error)
	Status(ctx context.Context, name string, sel FanoutSelection) (FanoutStatus, error)
	Pause(ctx context.Context, name string, sel FanoutSelection, by control.By) error
	Resume(ctx context.Context, name string, sel FanoutSelection, by control.By) error
	Reseed(ctx context.Context, name string, sel FanoutSelection, by control.By) error
	Rebind(ctx context.Context, name string, sel FanoutSelection, schema, table string, by control.By) (string, error)
	Verify(ctx context.Context, name string, sel FanoutSelection) ([]FanoutVerdict, error)
	Remove(ctx context.Context, name string, by control.By) error
}

// NewFanout is a fan-out to be added.
type NewFanout struct {
	Name   string `json:"name"`
	Lake   string `json:"lake" doc:"org whose lake has the source"`
	Schema string `json:"schema" doc:"of the source table"`
	Table  string `json:"table" doc:"the source table"`
	Shards int    `json:"shards,omitempty" minimum:"0" maximum:"256" doc:"parts that processes share out; fixed at creation; default 16"`
	Config string `json:"config" doc:"YAML or JSON"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only look at the source"`
}

// AddedFanout is what a fan-out does.
type AddedFanout struct {
	Fanout       Fanout              `json:"fanout"`
	Columns      []ChangelogColumn   `json:"columns" doc:"of the destinations' tables"`
	Dropped      []string            `json:"dropped" doc:"source columns that nobody asked for"`
	Destinations []FanoutDestination `json:"destinations"`
	DryRun       bool                `json:"dry_run"`
}

// Fanout is a source that is followed.
type Fanout struct {
	FanoutID   string      `json:"fanout_id"`
	Name       string      `json:"name"`
	Lake       string      `json:"lake"`
	Schema     string      `json:"schema"`
	Table      string      `json:"table"`
	SourceKind string      `json:"source_kind"`
	Mode       string      `json:"mode"`
	Desired    string      `json:"desired"`
	HaltCode   sluice.Code `json:"halt_code,omitempty"`
	HaltDetail string      `json:"halt_detail,omitempty"`
	HaltedAt   *time.Time  `json:"halted_at,omitempty"`
	CreatedAt  time.Time   `json:"created_at"`
}

// FanoutDestination is one team's table in one org's lake.
type FanoutDestination struct {
	DestinationID  string      `json:"destination_id"`
	Org            string      `json:"org"`
	TeamID         int64       `json:"team_id"`
	Table          string      `json:"table"`
	Origin         string      `json:"origin"`
	State          string      `json:"state"`
	Code           sluice.Code `json:"code,omitempty"`
	Detail         string      `json:"detail,omitempty"`
	FailedSince    *time.Time  `json:"failed_since,omitempty"`
	RetryAt        *time.Time  `json:"retry_at,omitempty"`
	CursorSnapshot int64       `json:"cursor_snapshot"`
	LagSnapshots   int64       `json:"lag_snapshots"`
	LagSeconds     float64     `json:"lag_seconds"`
}

// FanoutStatus is a fan-out with its destinations.
type FanoutStatus struct {
	Fanout
	HeadSnapshot int64               `json:"head_snapshot"`
	Destinations []FanoutDestination `json:"destinations"`
	Unrouted     map[string]int64    `json:"unrouted,omitempty" doc:"rows that the answering process has met and that lead nowhere, by value of the route"`
	Problem      string              `json:"problem,omitempty" doc:"what could not be looked at"`
}

// FanoutList is all fan-outs.
type FanoutList struct {
	Fanouts []Fanout `json:"fanouts"`
}

// FanoutSelection says which destinations are meant; empty: all.
type FanoutSelection struct {
	Org    string `json:"org,omitempty" query:"org"`
	TeamID int64  `json:"team_id,omitempty" query:"team_id"`
}

// FanoutVerdict is how a destination's table compares with what the source says.
type FanoutVerdict struct {
	DestinationID string   `json:"destination_id"`
	Org           string   `json:"org"`
	TeamID        int64    `json:"team_id"`
	Snapshot      int64    `json:"snapshot" doc:"of the source, that was compared"`
	Rows          int64    `json:"rows"`
	Missing       int64    `json:"missing" doc:"rows that the source has and the table has not, or otherwise"`
	Surplus       int64    `json:"surplus" doc:"rows that the table has and the source has not, or otherwise"`
	Keys          []string `json:"keys" doc:"the first 20 that differ"`
	Equal         bool     `json:"equal"`
}

// FanoutVerdicts is the answer to a verification.
type FanoutVerdicts struct {
	Destinations []FanoutVerdict `json:"destinations"`
	Equal        bool            `json:"equal"`
}

// FanoutDone is the answer to what has no other.
type FanoutDone struct {
	Name  string `json:"name"`
	Table string `json:"table,omitempty"`
}

// FanoutName names a fan-out in a path.
type FanoutName struct {
	Name string `path:"name"`
}

// noFanouts answers where the process has no fan-outs.
type noFanouts struct{}

func errNoFanouts() error {
	return sluice.E("SLUICE-FANOUT-NOT-FOUND", "look for fan-outs", "this process knows of none", "ask a server that serves the whole API", nil)
}

func (noFanouts) Add(context.Context, NewFanout, control.By) (AddedFanout, error) {
	return AddedFanout{}, errNoFanouts()
}
func (noFanouts) List(context.Context) ([]Fanout, error) { return nil, nil }
func (noFanouts) Status(context.Context, string, FanoutSelection) (FanoutStatus, error) {
	return FanoutStatus{}, errNoFanouts()
}

func (noFanouts) Pause(context.Context, string, FanoutSelection, control.By) error {
	return errNoFanouts()
}

func (noFanouts) Resume(context.Context, string, FanoutSelection, control.By) error {
	return errNoFanouts()
}

func (noFanouts) Reseed(context.Context, string, FanoutSelection, control.By) error {
	return errNoFanouts()
}

func (noFanouts) Rebind(context.Context, string, FanoutSelection, string, string, control.By) (string, error) {
	return "", errNoFanouts()
}

func (noFanouts) Verify(context.Context, string, FanoutSelection) ([]FanoutVerdict, error) {
	return nil, errNoFanouts()
}
func (noFanouts) Remove(context.Context, string, control.By) error { return errNoFanouts() }

func fanoutRoutes(api huma.API, d Deps) {
	if d.Fanouts == nil {
		d.Fanouts = noFanouts{}
	}
	route(api, d, http.MethodGet, "/fanouts", "list-fanouts", "List fan-outs", http.StatusOK,
		func(ctx context.Context, _ *struct{}) (*body[FanoutList], error) {
			list, err := d.Fanouts.List(ctx)
			return answer(FanoutList{nonNil(list)}, err)
		})
	route(api, d, http.MethodPost, "/fanouts", "add-fanout", "Follow a table into the lakes of many orgs", http.StatusOK,
		func(ctx context.Context, in *struct{ Body NewFanout }) (*body[AddedFanout], error) {
			return answer(d.Fanouts.Add(ctx, in.Body, by(ctx)))
		})
	route(api, d, http.MethodGet, "/fanouts/{name}", "get-fanout", "Show a fan-out with its destinations and how far they are behind", http.StatusOK,
		func(ctx context.Context, in *struct {
			FanoutName
			FanoutSelection
		},
		) (*body[FanoutStatus], error) {
			return answer(d.Fanouts.Status(ctx, in.Name, in.FanoutSelection))
		})
	for _, verb := range []struct {
		name, summary string
		do            func(context.Context, string, FanoutSelection, control.By) error
	}{
		{"pause", "Stop a fan-out, or some of its destinations", d.Fanouts.Pause},
		{"resume", "End pauses and halts", d.Fanouts.Resume},
		{"reseed", "Build tables of destinations anew from the source", d.Fanouts.Reseed},
	} {
		route(api, d, http.MethodPost, "/fanouts/{name}/"+verb.name, verb.name+"-fanout", verb.summary, http.StatusOK,
			func(ctx context.Context, in *struct {
				FanoutName
				Body FanoutSelection
			},
			) (*body[FanoutDone], error) {
				return answer(FanoutDone{Name: in.Name}, verb.do(ctx, in.Name, in.Body, by(ctx)))
			})
	}
	route(api, d, http.MethodPost, "/fanouts/{name}/rebind", "rebind-fanout", "Give a destination another table", http.StatusOK,
		func(ctx context.Context, in *struct {
			FanoutName
			Body struct {
				Org    string `json:"org"`
				TeamID int64  `json:"team_id"`
				Schema string `json:"schema,omitempty"`
				Table  string `json:"table,omitempty" doc:"default: what discovery names"`
			}
		},
		) (*body[FanoutDone], error) {
			table, err := d.Fanouts.Rebind(ctx, in.Name, FanoutSelection{in.Body.Org, in.Body.TeamID}, in.Body.Schema, in.Body.Table, by(ctx))
			return answer(FanoutDone{in.Name, table}, err)
		})
	route(api, d, http.MethodPost, "/fanouts/{name}/verify", "verify-fanout", "Compare destinations with what the source says", http.StatusOK,
		func(ctx context.Context, in *struct {
			FanoutName
			Body FanoutSelection
		},
		) (*body[FanoutVerdicts], error) {
			list, err := d.Fanouts.Verify(ctx, in.Name, in.Body)
			out := FanoutVerdicts{Destinations: nonNil(list), Equal: true}
			for _, v := range list {
				out.Equal = out.Equal && v.Equal
			}
			return answer(out, err)
		})
	route(api, d, http.MethodPost, "/fanouts/{name}/remove", "remove-fanout", "Take a fan-out away; what is in the lakes stays", http.StatusOK,
		func(ctx context.Context, in *FanoutName) (*body[FanoutDone], error) {
			return answer(FanoutDone{Name: in.Name}, d.Fanouts.Remove(ctx, in.Name, by(ctx)))
		})
}
