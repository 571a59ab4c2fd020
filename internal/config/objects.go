package config

import (
	"net/url"
	"strings"
	"time"
)

// objects checks how S3 is reached.
func (r *reader) objects(c *Config) {
	if e := c.Store.Endpoint; e != "" {
		if u, err := url.Parse(e); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			r.wrong("store.endpoint", "it must be a URL like https://s3.example.com, without credentials")
		}
	}
	cred := c.Store.Credentials
	r.oneOf("store.credentials.mode", cred.Mode, CredentialsAmbient, CredentialsStatic, CredentialsRole, CredentialsAnonymous)
	static, role := cred.Mode == CredentialsStatic, cred.Mode == CredentialsRole
	switch {
	case static && cred.KeyID == "":
		r.wrong("store.credentials.key_id", "it is needed with store.credentials.mode = static")
	case !static && cred.KeyID != "":
		r.wrong("store.credentials.key_id", "it is used only with store.credentials.mode = static")
	}
	switch {
	case static && !cred.Secret.IsSet():
		r.wrong("store.credentials.secret", "it is needed with store.credentials.mode = static: write {env: NAME} or {file: PATH}")
	case !static && cred.Secret.IsSet():
		r.wrong("store.credentials.secret", "it is used only with store.credentials.mode = static")
	}
	switch {
	case role && cred.Role == "":
		r.wrong("store.credentials.role", "it is needed with store.credentials.mode = assume_role")
	case !role && cred.Role != "":
		r.wrong("store.credentials.role", "it is used only with store.credentials.mode = assume_role")
	}
	if s := cred.Session.D(); s < 15*time.Minute || s > 12*time.Hour {
		r.wrong("store.credentials.session", "it must be between 15m and 12h")
	}
}

// delta checks how Delta tables are read.
func (r *reader) delta(c *Config) {
	if _, err := time.LoadLocation(c.Delta.PartitionTimezone); err != nil || c.Delta.PartitionTimezone == "" || c.Delta.PartitionTimezone == "Local" {
		r.wrong("delta.partition_timezone", "it must be a zone like UTC or Europe/Berlin")
	}
	if c.Delta.CommitKeys.RunID == "" {
		r.wrong("delta.commit_keys.run_id", "it must not be empty")
	}
	if c.Delta.CommitKeys.BatchIndex == "" {
		r.wrong("delta.commit_keys.batch_index", "it must not be empty")
	}
	for _, text := range c.Delta.AllowedRoots {
		root := ParseAllowedRoot(text)
		scheme, _, ok := strings.Cut(root.URI, "://")
		if ok && scheme == "s3" {
			continue
		}
		if ok && scheme != "file" || !ok && !strings.HasPrefix(root.URI, "/") || root.Profile != "" {
			r.wrong("delta.allowed_roots", "each must be an absolute path, a file:// URL, or s3://bucket/folder with or without profile=NAME")
		}
	}
}

// AllowedRoot is a place that the logs of Delta tables may name.
type AllowedRoot struct {
	URI     string
	Profile string // of the AWS tools' files; empty: the store's credentials
}

// ParseAllowedRoot reads "URI" or "URI profile=NAME".
func ParseAllowedRoot(text string) AllowedRoot {
	if at := strings.LastIndex(text, " profile="); at >= 0 {
		return AllowedRoot{strings.TrimSpace(text[:at]), text[at+len(" profile="):]}
	}
	return AllowedRoot{URI: text}
}
