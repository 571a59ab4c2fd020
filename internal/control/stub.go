package control

import (
	"context"
	"errors"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Store is the control plane's part of a state DB.
type Store struct{}

// New makes a Store.
func New(db *statedb.DB) *Store { return &Store{} }

// Lake says where an org's lake is. Secrets are references, never values.
type Lake struct {
	Kind            string   `json:"kind"`      // duckdb or postgres
	Catalog         string   `json:"catalog"`   // file path, or DSN without password
	DataPath        string   `json:"data_path"` // folder or s3://…
	SecretRef       string   `json:"secret_ref,omitempty"`
	ExtractPrefixes []string `json:"extract_prefixes,omitempty"` // where batches may be read from
}

// Limits of an org. Nil means no limit.
type Limits struct {
	MaxSessions    *int64 `json:"max_sessions"`
	MaxStreams     *int64 `json:"max_streams"`
	BackfillPerOrg *int64 `json:"backfill_per_org"`
	MemoryBytes    *int64 `json:"memory_bytes"`
	Threads        *int64 `json:"threads"`
}

// Org is a customer with its warehouse.
type Org struct {
	Org           sluice.Org          `json:"org"`
	DisplayName   string              `json:"display_name"`
	DatabaseName  string              `json:"database_name"`
	HostnameAlias string              `json:"hostname_alias,omitempty"`
	NamingPolicy  sluice.NamingPolicy `json:"naming_policy"`
	State         sluice.OrgState     `json:"state"`
	Limits        Limits              `json:"limits"`
	Lake          Lake                `json:"lake"`
	Version       int64               `json:"version"`
	CreatedAt     time.Time           `json:"created_at"`
	DeletedAt     *time.Time          `json:"deleted_at,omitempty"`
}

// NewOrg is what a caller says about an org; empty fields take the defaults.
type NewOrg struct {
	Org           sluice.Org
	DisplayName   string // empty: the id
	DatabaseName  string // empty: the id
	HostnameAlias string
	NamingPolicy  sluice.NamingPolicy // empty: copy_v1
	State         sluice.OrgState     // empty: pending
	Limits        *Limits             // nil: max_streams 4, backfill_per_org 1
	Lake          Lake
}

// Team is a project inside an org.
type Team struct {
	Org             sluice.Org    `json:"org"`
	TeamID          sluice.TeamID `json:"team_id"`
	SchemaName      string        `json:"schema_name"`
	Enabled         bool          `json:"enabled"`
	BackfillEnabled bool          `json:"backfill_enabled"`
	EventsTable     string        `json:"events_table,omitempty"`
	PersonsTable    string        `json:"persons_table,omitempty"`
	ImportsSchema   string        `json:"imports_schema,omitempty"`
	Version         int64         `json:"version"`
	CreatedAt       time.Time     `json:"created_at"`
}

// NewTeam is what a caller says about a team; SchemaName empty means team_<id>.
type NewTeam struct {
	Org           sluice.Org
	TeamID        sluice.TeamID
	SchemaName    string
	EventsTable   string
	PersonsTable  string
	ImportsSchema string
}

// Tables are the resolved names of a team.
type Tables struct {
	Events        string // schema.table
	Persons       string
	ImportsSchema string
}

// By names who changes something.
type By struct{ Who, RequestID string }

// Credential is a short-lived login of a service; Secret is set only by Mint and Refresh.
type Credential struct {
	CredentialID string     `json:"credential_id"`
	Org          sluice.Org `json:"org"`
	Principal    string     `json:"principal"`
	Secret       string     `json:"secret,omitempty"`
	Verifier     string     `json:"-"`
	ExpiresAt    time.Time  `json:"expires_at"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
}

var errStub = errors.ErrUnsupported

// CreateOrg registers an org.
func (s *Store) CreateOrg(ctx context.Context, n NewOrg, by By) (Org, error) { return Org{}, errStub }

// Org gives an org, or SLUICE-CONTROL-NO-ORG.
func (s *Store) Org(ctx context.Context, id sluice.Org) (Org, error) { return Org{}, errStub }

// OrgByDatabase gives the org that a client's database name belongs to.
func (s *Store) OrgByDatabase(ctx context.Context, database string) (Org, error) {
	return Org{}, errStub
}

// Orgs lists all orgs that are not deleted, by id.
func (s *Store) Orgs(ctx context.Context) ([]Org, error) { return nil, errStub }

// SetOrgState moves an org's warehouse from one state to another.
func (s *Store) SetOrgState(ctx context.Context, id sluice.Org, state sluice.OrgState, by By) error {
	return errStub
}

// SetLake stores where the org's lake is.
func (s *Store) SetLake(ctx context.Context, id sluice.Org, l Lake, by By) error { return errStub }

// SetLimits replaces the limits of an org.
func (s *Store) SetLimits(ctx context.Context, id sluice.Org, l Limits, by By) error { return errStub }

// SetPolicy changes the naming policy for streams that are bound later.
func (s *Store) SetPolicy(ctx context.Context, id sluice.Org, p sluice.NamingPolicy, by By) error {
	return errStub
}

// CreateTeam registers a team.
func (s *Store) CreateTeam(ctx context.Context, n NewTeam, by By) (Team, error) {
	return Team{}, errStub
}

// Team gives a team, or SLUICE-CONTROL-NO-TEAM.
func (s *Store) Team(ctx context.Context, org sluice.Org, id sluice.TeamID) (Team, error) {
	return Team{}, errStub
}

// Teams lists the teams of an org by id.
func (s *Store) Teams(ctx context.Context, org sluice.Org) ([]Team, error) { return nil, errStub }

// Mint makes a credential for a principal of an org; ttl 0 means 900 s, allowed are 60 s to 3,600 s.
func (s *Store) Mint(ctx context.Context, org sluice.Org, principal string, ttl time.Duration) (Credential, error) {
	return Credential{}, errStub
}

// Refresh gives a credential a new secret and a new end.
func (s *Store) Refresh(ctx context.Context, id string, ttl time.Duration) (Credential, error) {
	return Credential{}, errStub
}

// Revoke ends a credential at once.
func (s *Store) Revoke(ctx context.Context, id string, by By) error { return errStub }

// Lookup gives a credential with its verifier (SCRAM-SHA-256$4096:salt$stored:server) for a handshake; one that is
// expired, revoked or unknown is not found (false).
func (s *Store) Lookup(ctx context.Context, id string) (Credential, bool, error) {
	return Credential{}, false, errStub
}

// Generation is the number that rises with every change that readers of the configuration see.
func (s *Store) Generation(ctx context.Context) (int64, error) { return 0, errStub }
