package config

import (
	"path/filepath"
	"slices"
)

// Config is the whole configuration. A key's path is made of the `key` tags, joined by dots: `loader.lease.ttl` in
// sluice.yaml, `--loader.lease.ttl` as a flag, SLUICE_LOADER__LEASE__TTL in the environment.
type Config struct {
	Data      string    `key:"data" default:"./sluice-data" env:"SLUICE_DATA" doc:"directory of state, lakes, extracts and extensions"`
	Roles     []string  `key:"roles" default:"all" env:"SLUICE_ROLES" doc:"what this process does: all, or a list of api, warehouse, planner, loader, changelog, fanout"`
	Instance  string    `key:"instance" doc:"name of this process; default: host name and a random part"`
	Server    string    `key:"server" env:"SLUICE_SERVER" doc:"URL of the server that commands talk to; default: the one that runs on the data directory"`
	Log       Log       `key:"log"`
	Token     Secret    `key:"token" doc:"bearer token that commands show to the server; SLUICE_TOKEN holds it itself"`
	State     State     `key:"state"`
	HTTP      HTTP      `key:"http"`
	Warehouse Warehouse `key:"warehouse"`
	Catalog   Catalog   `key:"catalog"`
	Store     Store     `key:"store"`
	Delta     Delta     `key:"delta"`
	Loader    Loader    `key:"loader"`
	Backfill  Backfill  `key:"backfill"`
	Sweep     Sweep     `key:"sweep"`
	Kafka     Kafka     `key:"kafka"`
	Changelog Changelog `key:"changelog"`
	Fanout    Fanout    `key:"fanout"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `key:"level" default:"info" env:"SLUICE_LOG_LEVEL" doc:"debug, info, warn or error"`
	Format string `key:"format" default:"auto" doc:"text, json, or auto: text on a terminal"`
}

// State says where the state DB is.
type State struct {
	DSN Secret `key:"dsn" env:"SLUICE_STATE_DSN" literal:"dsn" doc:"postgres:// URL, or the path of an SQLite file; default: state.db in the data directory"`
}

// HTTP says where the API is served.
type HTTP struct {
	Listen string `key:"listen" default:"127.0.0.1:8090" env:"SLUICE_HTTP" doc:"address of API, health and metrics; a process without the role api opens it only if it is set"`
	Asked  bool   `key:"-"` // Listen is not the default
	Auth   Auth   `key:"auth"`
	TLS    TLS    `key:"tls"`
	Rate   int    `key:"rate" default:"100" doc:"requests a second that each token may make; 0: no limit"`
}

// Auth says who may use the API.
type Auth struct {
	Mode            string `key:"mode" default:"local" doc:"local (loopback only, no login) or token (bearer tokens)"`
	AdminSecret     Secret `key:"admin_secret" doc:"bearer secret with the role admin, for mode token: it makes the first tokens"`
	DiscoverySecret Secret `key:"discovery_secret" doc:"bearer secret that reads the warehouses and nothing else, for mode token"`
}

// TLS is a certificate and its key, as PEM files.
type TLS struct {
	Cert string `key:"cert" doc:"file of the certificate with its chain; needed beyond loopback"`
	Key  string `key:"key" doc:"file of its private key"`
}

// On reports whether there is a certificate.
func (t TLS) On() bool { return t.Cert != "" }

// The modes of http.auth.
const (
	AuthLocal = "local"
	AuthToken = "token"
)

// Warehouse configures the PostgreSQL endpoint and the engines behind it.
type Warehouse struct {
	Listen         string   `key:"listen" default:"127.0.0.1:15432" env:"SLUICE_LISTEN" doc:"address of the PostgreSQL endpoint"`
	Extensions     string   `key:"extensions" doc:"directory of the engine's extensions; default: looked for, see sluice doctor"`
	MemoryLimit    Memory   `key:"memory_limit" default:"75%" doc:"memory of all engines of this process: a size, or a share of the container's"`
	Threads        int      `key:"threads" default:"0" doc:"threads of each engine; 0: one per CPU"`
	MaxInstances   int      `key:"max_instances" default:"0" doc:"engines that stay open when idle; 0: 64"`
	InstanceMaxAge Duration `key:"instance_max_age" default:"24h" doc:"an engine older than this is closed once it is idle"`
	MaxConnections int      `key:"max_connections" default:"200" doc:"client connections at once"`
	SpillLimit     Size     `key:"spill_limit" default:"0" doc:"disk that each engine may spill to; 0: most of what is free"`
}

// Catalog says where lakes keep their catalogs.
type Catalog struct {
	Kind       string `key:"kind" default:"duckdb" doc:"duckdb (a file, one process) or postgres (a database and role for each org)"`
	DSN        Secret `key:"dsn" literal:"dsn" doc:"postgres:// URL of a role that may create databases and roles; for kind postgres"`
	RoleKey    Secret `key:"role_key" doc:"key from which the passwords of the orgs' catalog roles are derived; for kind postgres"`
	PoolPerOrg int    `key:"pool_per_org" default:"8" doc:"connections of each engine to its PostgreSQL catalog"`
}

// Store says where lakes keep their data, and how objects of S3 are reached.
type Store struct {
	URL         string      `key:"url" doc:"directory or file:// URL for the lakes' data; default: lake in the data directory"`
	Endpoint    string      `key:"endpoint" doc:"URL of an S3 server other than AWS"`
	Region      string      `key:"region" doc:"region of the S3 buckets; default: as the AWS tools find it, else us-east-1"`
	PathStyle   bool        `key:"path_style" default:"false" doc:"true: the bucket is in the path of a request, not in its host name"`
	Credentials Credentials `key:"credentials"`
}

// Credentials say what requests to S3 are signed with.
type Credentials struct {
	Mode    string   `key:"mode" default:"ambient" doc:"ambient (as the AWS tools find them), static (key_id and secret), assume_role, or anonymous"`
	KeyID   string   `key:"key_id" doc:"access key id, for mode static"`
	Secret  Secret   `key:"secret" doc:"secret access key, for mode static"`
	Role    string   `key:"role" doc:"ARN of the role, for mode assume_role"`
	Session Duration `key:"session" default:"1h" doc:"how long a session of the role lasts"`
}

// Delta says how Delta tables are read.
type Delta struct {
	CommitKeys        CommitKeys `key:"commit_keys"`
	PartitionTimezone string     `key:"partition_timezone" default:"UTC" doc:"zone of the timestamps without one in partition values: that of their writer"`
	AllowedRoots      []string   `key:"allowed_roots" doc:"places outside a table's bucket that its log may name; each may end in profile=NAME, an AWS profile for its credentials"`
	Strict            bool       `key:"strict" default:"true" doc:"false: commits may name a file in two adds, or have two protocols or metadata"`
}

// CommitKeys name what producers write into their commits.
type CommitKeys struct {
	RunID      string `key:"run_id" default:"run_id" doc:"key of a run's id"`
	BatchIndex string `key:"batch_index" default:"batch_index" doc:"key of a batch's index"`
}

// The credentials' modes.
const (
	CredentialsAmbient   = "ambient"
	CredentialsStatic    = "static"
	CredentialsRole      = "assume_role"
	CredentialsAnonymous = "anonymous"
)

// Loader configures the loading of batches.
type Loader struct {
	Concurrency     int      `key:"concurrency" default:"16" doc:"streams that are loaded at once"`
	Poll            Duration `key:"poll" default:"2s" doc:"how often work is looked for when nothing tells of any"`
	BatchTimeout    Duration `key:"batch_timeout" default:"30m" doc:"longest time for one batch"`
	ChunkTimeout    Duration `key:"chunk_timeout" default:"2h" doc:"longest time for one chunk of a history"`
	MaxAttempts     int      `key:"max_attempts" default:"5" doc:"counted attempts before a batch goes to quarantine"`
	DrainTimeout    Duration `key:"drain_timeout" default:"30s" doc:"how long begun batches may go on at shutdown"`
	RetryBase       Duration `key:"retry_base" default:"5s" doc:"wait after the first counted failure; doubled each time"`
	SecondLook      Duration `key:"second_look" default:"10s" doc:"wait before a missing file is believed to be gone"`
	Lease           Lease    `key:"lease"`
	Session         Session  `key:"session"`
	Warehouse       string   `key:"warehouse" doc:"address of the warehouse to load into, for a process without the role warehouse; default: warehouse.listen"`
	ExtractPrefixes []string `key:"extract_prefixes" doc:"further directories that every new org may load extracts from"`
}

// Backfill configures the planning of histories.
type Backfill struct {
	PerOrg     int      `key:"per_org" default:"1" doc:"histories of one org that are loaded at once; an org may have a limit of its own"`
	Global     int      `key:"global" default:"5" doc:"histories that are loaded at once"`
	Interval   Duration `key:"interval" default:"5s" doc:"how often the planner looks for something to do"`
	ChunkBytes Size     `key:"chunk_bytes" default:"1GiB" doc:"data files of about this size are loaded in one transaction; a larger file is one by itself"`
	LookAgain  Duration `key:"look_again" default:"20s" doc:"wait before a source that is not there, or is empty, is looked at again"`
	EmptyApart Duration `key:"empty_apart" default:"60s" doc:"an empty history is believed when two looks so far apart agree"`
}

// Lease configures the right of a loader to work on a stream.
type Lease struct {
	TTL       Duration `key:"ttl" default:"60s" doc:"a stream of a dead loader is free again after this time"`
	Heartbeat Duration `key:"heartbeat" default:"15s" doc:"how often a lease is renewed"`
}

// Session configures how long a loader keeps its sessions to warehouses.
type Session struct {
	Idle   Duration `key:"idle" default:"90s" doc:"a session without work is closed after this time; it counts in its org's max_streams until then"`
	MaxAge Duration `key:"max_age" default:"10m" doc:"a session is replaced after this time"`
}

// Sweep configures the repair and clean-up of the queue.
type Sweep struct {
	Interval Duration `key:"interval" default:"30s" doc:"how often the queue is swept"`
}

// Kafka says how the brokers of changelogs are reached.
type Kafka struct {
	Brokers []string  `key:"brokers" doc:"host:port of some brokers"`
	TLS     KafkaTLS  `key:"tls"`
	SASL    KafkaSASL `key:"sasl"`
}

// KafkaTLS is the encryption towards brokers.
type KafkaTLS struct {
	Mode       string `key:"mode" default:"off" doc:"off or on"`
	CAFile     string `key:"ca_file" doc:"certificates of who signs the brokers'; default: the system's"`
	CertFile   string `key:"cert_file" doc:"client certificate, for brokers that ask for one"`
	KeyFile    string `key:"key_file" doc:"key of the client certificate"`
	ServerName string `key:"server_name" doc:"name in the brokers' certificates, if it is not the one in brokers"`
}

// KafkaSASL is the login at brokers.
type KafkaSASL struct {
	Mechanism string `key:"mechanism" doc:"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM; empty: none"`
	User      string `key:"user" doc:"user, or access key"`
	Password  Secret `key:"password" doc:"password, token or secret key"`
}

// Changelog configures how topics are taken into lakes.
type Changelog struct {
	FlushBytes       Size     `key:"flush_bytes" default:"100MiB" doc:"a buffer of so many bytes of messages is written"`
	FlushRows        int      `key:"flush_rows" default:"1000000" doc:"a buffer of so many messages is written"`
	FlushInterval    Duration `key:"flush_interval" default:"60s" doc:"a buffer whose oldest message is so old is written"`
	MaxFlushInterval Duration `key:"max_flush_interval" default:"300s" doc:"the interval stretches up to this while files are small"`
	MemoryLimit      Size     `key:"memory_limit" default:"512MiB" doc:"what all buffers of this process may hold"`
	FetchMaxBytes    Size     `key:"fetch_max_bytes" default:"50MiB" doc:"the most that is fetched at once"`
	Check            Duration `key:"check" default:"60s" doc:"how often a topic's partitions are looked at"`
	Poll             Duration `key:"poll" default:"2s" doc:"how often free slots are looked for"`
	Slots            []string `key:"slots" doc:"numbers of the slots that this process works on, of every changelog; empty: its share of what is free"`
	Lease            Lease    `key:"lease"`
}

// Fanout configures how tables are followed into the lakes of many orgs.
type Fanout struct {
	FlushRows     int      `key:"flush_rows" default:"50000" doc:"so many rows that were read for a destination are written"`
	FlushInterval Duration `key:"flush_interval" default:"10s" doc:"rows that were read so long ago are written"`
	Concurrency   int      `key:"concurrency" default:"8" doc:"transactions at once, at most 2 of them in one org"`
	Seeds         int      `key:"seeds" default:"2" doc:"destinations whose history is collected at once"`
	Poll          Duration `key:"poll" default:"1s" doc:"how often sources are looked at"`
	Discovery     Duration `key:"discovery" default:"60s" doc:"how often new and vanished destinations are looked for"`
	SpoolLimit    Size     `key:"spool_limit" default:"10GiB" doc:"bytes of rows that were read and not written"`
	LeaseTTL      Duration `key:"lease_ttl" default:"30s" doc:"after so long without a sign of life another process takes over"`
}

// The roles that `sluice serve` knows.
const (
	RoleAPI       = "api"
	RoleWarehouse = "warehouse"
	RolePlanner   = "planner"
	RoleLoader    = "loader"
	RoleChangelog = "changelog"
	RoleFanout    = "fanout"
)

// AllRoles are the roles in the order in which they start.
var AllRoles = []string{RoleAPI, RoleWarehouse, RolePlanner, RoleLoader, RoleChangelog, RoleFanout}

// Has reports whether the process has a role.
func (c *Config) Has(role string) bool {
	return slices.Contains(c.Roles, "all") || slices.Contains(c.Roles, role)
}

// RoleNames are the roles of the process, without the word all.
func (c *Config) RoleNames() []string {
	var names []string
	for _, r := range AllRoles {
		if c.Has(r) {
			names = append(names, r)
		}
	}
	return names
}

// Path is a file or directory below the data directory.
func (c *Config) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Data}, elem...)...)
}

// Catalog kinds.
const (
	CatalogDuckDB   = "duckdb"
	CatalogPostgres = "postgres"
)
