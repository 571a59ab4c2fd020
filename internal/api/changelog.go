package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Changelogs is what the routes need of the changelogs; they are another role's.
type Changelogs interface {
	Add(ctx context.Context, n NewChangelog, by control.By) (AddedChangelog, error)
	List(ctx context.Context) ([]Changelog, error)
	Status(ctx context.Context, name string) (ChangelogStatus, error)
	Pause(ctx context.Context, name string, by control.By) error
	Configure(ctx context.Context, name, config string, by control.By) error
	Resume(ctx context.Context, name, accept string, by control.By) error
	Replay(ctx context.Context, name string, sel ChangelogSelection) (ChangelogReplay, error)
	Quarantine(ctx context.Context, name string, sel ChangelogSelection, limit int, bytes bool) ([]PoisonedMessage, error)
	Discard(ctx context.Context, name string, sel ChangelogSelection) (int64, error)
	Drop(ctx context.Context, name string, keepTable bool, by control.By) error
}

// NewChangelog is a changelog to be added.
type NewChangelog struct {
	Name   string `json:"name"`
	Lake   string `json:"lake" doc:"org whose lake gets the table"`
	Schema string `json:"schema,omitempty" doc:"default: changelog"`
	Table  string `json:"table,omitempty" doc:"default: the name"`
	Topic  string `json:"topic"`
	Slots  int    `json:"slots,omitempty" doc:"how many processes may share the work; fixed at creation"`
	Config string `json:"config,omitempty" doc:"YAML or JSON"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only look at the topic"`
}

// AddedChangelog is what was found in the topic's first messages, and the changelog.
type AddedChangelog struct {
	Changelog Changelog        `json:"changelog"`
	Preview   ChangelogPreview `json:"preview"`
	DryRun    bool             `json:"dry_run"`
}

// ChangelogPreview is what a look at the first messages of a topic shows.
type ChangelogPreview struct {
	Partitions int               `json:"partitions"`
	Messages   int64             `json:"messages"`
	Filtered   int64             `json:"filtered"`
	Poison     map[string]int64  `json:"poison"`
	Columns    []ChangelogColumn `json:"columns"`
	Others     map[string]string `json:"others" doc:"names that get no column, and why"`
}

// ChangelogColumn is a column that the table has or would get.
type ChangelogColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Changelog is one topic that is kept in a table.
type Changelog struct {
	ChangelogID string      `json:"changelog_id"`
	Name        string      `json:"name"`
	Lake        string      `json:"lake"`
	Schema      string      `json:"schema"`
	Table       string      `json:"table"`
	Topic       string      `json:"topic"`
	Slots       int         `json:"slots"`
	Desired     string      `json:"desired"`
	Status      string      `json:"status"`
	HaltCode    sluice.Code `json:"halt_code,omitempty"`
	HaltDetail  string      `json:"halt_detail,omitempty"`
	HaltedAt    *time.Time  `json:"halted_at,omitempty"`
	CreatedAt   time.Time   `json:"created_at"`
}

// ChangelogList is all changelogs.
type ChangelogList struct {
	Changelogs []Changelog `json:"changelogs"`
}

// ChangelogStatus is a changelog with what its lake and topic say.
type ChangelogStatus struct {
	Changelog
	Partitions []ChangelogPartition `json:"partitions"`
	Quarantine map[string]int64     `json:"quarantine" doc:"open messages by reason"`
	LagRecords int64                `json:"lag_records"`
	LagSeconds float64              `json:"lag_seconds"`
	Problem    string               `json:"problem,omitempty" doc:"what could not be looked at"`
	Running    []ChangelogSlot      `json:"running,omitempty" doc:"slots that the answering process works on"`
}

// ChangelogSlot is a slot that the answering process works on.
type ChangelogSlot struct {
	Slot          int     `json:"slot"`
	Buffered      int64   `json:"buffered"`
	HeldBytes     int64   `json:"held_bytes"`
	Paused        bool    `json:"paused"`
	RowsPerSecond float64 `json:"rows_per_second"`
	Error         string  `json:"error,omitempty"`
}

// ChangelogPartition is one partition of a topic.
type ChangelogPartition struct {
	Partition  int32      `json:"partition"`
	Slot       int        `json:"slot"`
	TopicEpoch int32      `json:"topic_epoch"`
	NextOffset int64      `json:"next_offset"`
	EndOffset  int64      `json:"end_offset"`
	LagRecords int64      `json:"lag_records"`
	LagSeconds float64    `json:"lag_seconds"`
	LastFlush  *time.Time `json:"last_flush,omitempty"`
	Owner      string     `json:"owner,omitempty"`
}

// ChangelogSelection says which messages of the quarantine are meant.
type ChangelogSelection struct {
	Reason    string `json:"reason,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	From      int64  `json:"from,omitempty" doc:"first offset"`
	To        int64  `json:"to,omitempty" doc:"last offset; 0: no bounds"`
}

// ChangelogReplay counts what a replay has done.
type ChangelogReplay struct {
	Rows  int64            `json:"rows"`
	Still map[string]int64 `json:"still_poison"`
}

// PoisonedMessage is one message of the quarantine.
type PoisonedMessage struct {
	TopicEpoch int32      `json:"topic_epoch"`
	Partition  int32      `json:"partition"`
	Offset     int64      `json:"offset"`
	Timestamp  *time.Time `json:"timestamp,omitempty"`
	Reason     string     `json:"reason"`
	Detail     string     `json:"detail,omitempty"`
	At         time.Time  `json:"at"`
	SizeBytes  int64      `json:"size_bytes"`
	Key        []byte     `json:"key,omitempty"`
	Value      []byte     `json:"value,omitempty"`
}

// ChangelogQuarantine is messages that could not be rows.
type ChangelogQuarantine struct {
	Messages []PoisonedMessage `json:"messages"`
}

// ChangelogDone is the answer to what has no other.
type ChangelogDone struct {
	Name     string `json:"name"`
	Messages int64  `json:"messages,omitempty"`
}

// ChangelogName names a changelog in a path.
type ChangelogName struct {
	Name string `path:"name"`
}

// noChangelogs answers where the process has no changelogs.
type noChangelogs struct{}

func errNoChangelogs() error {
	return sluice.E("SLUICE-CHANGELOG-NOT-FOUND", "look for changelogs", "this process knows of none", "ask a server that serves the whole API", nil)
}

func (noChangelogs) Add(context.Context, NewChangelog, control.By) (AddedChangelog, error) {
	return AddedChangelog{}, errNoChangelogs()
}
func (noChangelogs) List(context.Context) ([]Changelog, error) { return nil, nil }
func (noChangelogs) Status(context.Context, string) (ChangelogStatus, error) {
	return ChangelogStatus{}, errNoChangelogs()
}
func (noChangelogs) Pause(context.Context, string, control.By) error { return errNoChangelogs() }
func (noChangelogs) Configure(context.Context, string, string, control.By) error {
	return errNoChangelogs()
}

func (noChangelogs) Resume(context.Context, string, string, control.By) error {
	return errNoChangelogs()
}

func (noChangelogs) Replay(context.Context, string, ChangelogSelection) (ChangelogReplay, error) {
	return ChangelogReplay{}, errNoChangelogs()
}

func (noChangelogs) Quarantine(context.Context, string, ChangelogSelection, int, bool) ([]PoisonedMessage, error) {
	return nil, errNoChangelogs()
}

func (noChangelogs) Discard(context.Context, string, ChangelogSelection) (int64, error) {
	return 0, errNoChangelogs()
}

func (noChangelogs) Drop(context.Context, string, bool, control.By) error { return errNoChangelogs() }

func changelogRoutes(api huma.API, d Deps) {
	if d.Changelogs == nil {
		d.Changelogs = noChangelogs{}
	}
	done := func(name string, n int64, err error) (*body[ChangelogDone], error) {
		return answer(ChangelogDone{name, n}, err)
	}
	route(api, d, http.MethodGet, "/changelogs", "list-changelogs", "List changelogs", http.StatusOK,
		func(ctx context.Context, _ *struct{}) (*body[ChangelogList], error) {
			list, err := d.Changelogs.List(ctx)
			return answer(ChangelogList{nonNil(list)}, err)
		})
	route(api, d, http.MethodPost, "/changelogs", "add-changelog", "Keep a topic in a table", http.StatusOK,
		func(ctx context.Context, in *struct{ Body NewChangelog }) (*body[AddedChangelog], error) {
			return answer(d.Changelogs.Add(ctx, in.Body, by(ctx)))
		})
	route(api, d, http.MethodGet, "/changelogs/{name}", "get-changelog", "Show a changelog with its lag, from its lake and Kafka alone", http.StatusOK,
		func(ctx context.Context, in *ChangelogName) (*body[ChangelogStatus], error) {
			return answer(d.Changelogs.Status(ctx, in.Name))
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/pause", "pause-changelog", "Stop a changelog in order", http.StatusOK,
		func(ctx context.Context, in *ChangelogName) (*body[ChangelogDone], error) {
			return done(in.Name, 0, d.Changelogs.Pause(ctx, in.Name, by(ctx)))
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/configure", "configure-changelog", "Replace a changelog's config", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Body struct {
				Config string `json:"config"`
			}
		},
		) (*body[ChangelogDone], error) {
			return done(in.Name, 0, d.Changelogs.Configure(ctx, in.Name, in.Body.Config, by(ctx)))
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/resume", "resume-changelog", "End a pause or a halt", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Body struct {
				Accept string `json:"accept,omitempty" enum:"accept_gap,accept_truncation,new_epoch" doc:"the loss that is accepted"`
			}
		},
		) (*body[ChangelogDone], error) {
			return done(in.Name, 0, d.Changelogs.Resume(ctx, in.Name, in.Body.Accept, by(ctx)))
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/replay", "replay-changelog", "Decode messages of the quarantine again", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Body ChangelogSelection
		},
		) (*body[ChangelogReplay], error) {
			return answer(d.Changelogs.Replay(ctx, in.Name, in.Body))
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/discard", "discard-changelog-messages", "Settle messages of the quarantine without making rows of them", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Body ChangelogSelection
		},
		) (*body[ChangelogDone], error) {
			n, err := d.Changelogs.Discard(ctx, in.Name, in.Body)
			return done(in.Name, n, err)
		})
	route(api, d, http.MethodGet, "/changelogs/{name}/quarantine", "list-changelog-messages", "List messages that could not be rows", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Reason string `query:"reason"`
			Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
			Bytes  bool   `query:"bytes" doc:"with key and value"`
			// The framework takes no pointers in queries: -1 is no partition.
			Partition int32 `query:"partition" default:"-1"`
			From      int64 `query:"from"`
			To        int64 `query:"to"`
		},
		) (*body[ChangelogQuarantine], error) {
			sel := ChangelogSelection{Reason: in.Reason, From: in.From, To: in.To}
			if in.Partition >= 0 {
				sel.Partition = &in.Partition
			}
			list, err := d.Changelogs.Quarantine(ctx, in.Name, sel, in.Limit, in.Bytes)
			return answer(ChangelogQuarantine{nonNil(list)}, err)
		})
	route(api, d, http.MethodPost, "/changelogs/{name}/drop", "drop-changelog", "Take a changelog away", http.StatusOK,
		func(ctx context.Context, in *struct {
			ChangelogName
			Body struct {
				KeepTable bool `json:"keep_table,omitempty"`
			}
		},
		) (*body[ChangelogDone], error) {
			return done(in.Name, 0, d.Changelogs.Drop(ctx, in.Name, in.Body.KeepTable, by(ctx)))
		})
}
